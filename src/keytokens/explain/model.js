// The model itself: the same tokens, weights and sums as in Python. Pure functions, no page.
const model = (function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const shape = data.shape; // M maps, K outputs, V tokens
  const M = shape[0], K = shape[1], V = shape[2];
  const attention = numbers(data.attention), value = numbers(data.value), bias = data.bias;
  const vocabulary = data.vocabulary;
  const hasConstant = Array.from({ length: M }, function (_, m) { return attention[m * (V + 1) + V]; }).some(Number.isFinite);
  const grams = known();

  // Little-endian floats in base64, whatever the machine.
  function numbers(packed) {
    const raw = atob(packed), view = new DataView(new ArrayBuffer(raw.length)), size = data.float;
    for (let k = 0; k < raw.length; k += 1) view.setUint8(k, raw.charCodeAt(k));
    const found = new Float64Array(raw.length / size);
    for (let k = 0; k < found.length; k += 1) {
      found[k] = size === 4 ? view.getFloat32(4 * k, true) : view.getFloat64(8 * k, true);
    }
    return found;
  }

  // Words as numbers, and each n-gram as what stands before its last word with that word: a long
  // text is looked up by numbers, and no n-gram of it is ever spelled out.
  function known() {
    const words = new Map(), nodes = new Map(), columns = [-1];
    vocabulary.forEach(function (gram, s) {
      let node = 0;
      for (const word of gram.split(" ")) {
        if (!words.has(word)) words.set(word, words.size);
        const key = keyOf(node, words.get(word));
        if (!nodes.has(key)) { nodes.set(key, columns.length); columns.push(-1); }
        node = nodes.get(key);
      }
      columns[node] = s;
    });
    return { words: words, nodes: nodes, columns: columns };
  }

  function keyOf(node, word) { return node * 0x4000000 + word; } // 2^26 words, 2^26 nodes: exact

  // Words with their places, in units for slices and in code points (from, to) as Python counts.
  function tokens(text) {
    return tokenize(text, data.punctuation).map(function (one) {
      return {
        word: one.text, start: one.from, end: one.until, from: one.start, to: one.end,
        attention: 0, contribution: 0, known: false,
      };
    });
  }

  // Every known n-gram: its column, and its first and last word.
  function occurrences(words) {
    const found = [], ids = words.map(function (one) { return grams.words.get(one.word); });
    for (let i = 0; i < words.length; i += 1) {
      let node = 0;
      for (let last = i; last < words.length && ids[last] !== undefined; last += 1) {
        node = grams.nodes.get(keyOf(node, ids[last]));
        if (node === undefined) break;
        const s = grams.columns[node];
        if (s >= 0) found.push({ column: s, first: i, last: last, attention: 0, contribution: 0, value: 0 });
      }
    }
    return found;
  }

  // Distinct tokens and their counts, in column order; <cls> is column V.
  function bag(found) {
    const times = new Map();
    for (const one of found) times.set(one.column, (times.get(one.column) || 0) + 1);
    const columns = Array.from(times.keys()).sort(function (a, b) { return a - b; });
    const counts = columns.map(function (s) { return data.binary ? 1 : times.get(s); });
    return { columns: columns.concat([V]), counts: counts.concat([1]), times: times };
  }

  // w[m][j] = N_j e^{a_j} / Z.
  function weights(seen) {
    return Array.from({ length: M }, function (_, m) {
      const a = seen.columns.map(function (s) { return attention[m * (V + 1) + s]; });
      const top = a.reduce(function (x, y) { return Math.max(x, y); }, -Infinity);
      if (top === -Infinity) return a.map(function () { return 0; });
      const raw = a.map(function (x, j) { return seen.counts[j] * Math.exp(x - top); });
      const total = raw.reduce(function (x, y) { return x + y; }, 0);
      return raw.map(function (x) { return x / total; });
    });
  }

  function valueOf(m, k, s) { return value[(m * K + k) * (V + 1) + s]; }

  // contributions[k][j] = sum_m w[m][j] b[m][k][s_j]
  function contributions(seen, w) {
    return Array.from({ length: K }, function (_, k) {
      return seen.columns.map(function (s, j) {
        let sum = 0;
        for (let m = 0; m < M; m += 1) sum += w[m][j] * valueOf(m, k, s);
        return sum;
      });
    });
  }

  function logitsOf(credit) {
    return credit.map(function (row, k) {
      return row.reduce(function (x, y) { return x + y; }, bias[k]);
    });
  }

  function decide(logits) {
    if (K === 1) return logits[0] > 0 ? 1 : 0;
    return logits.reduce(function (best, x, k) { return x > logits[best] ? k : best; }, 0);
  }

  function probabilities(logits) {
    const all = K === 1 ? [0, logits[0]] : logits;
    const top = Math.max.apply(null, all);
    const raw = all.map(function (x) { return Math.exp(x - top); });
    const total = raw.reduce(function (x, y) { return x + y; }, 0);
    return raw.map(function (x) { return x / total; });
  }

  // The logits when only the tokens of `keep` and <cls> stay; for one map.
  function keptLogits(seen, keep) {
    const columns = seen.columns, sums = new Float64Array(K);
    let top = attention[V], total = 0;
    for (let j = 0; j < columns.length; j += 1) if (keep[j]) top = Math.max(top, attention[columns[j]]);
    if (top === -Infinity) return bias;
    for (let j = 0; j < columns.length; j += 1) {
      const s = columns[j];
      if (!keep[j] && s !== V) continue;
      const e = seen.counts[j] * Math.exp(attention[s] - top);
      total += e;
      for (let k = 0; k < K; k += 1) sums[k] += e * valueOf(0, k, s);
    }
    return bias.map(function (b, k) { return b + sums[k] / total; });
  }

  // Rivals of the decision as signs d over the outputs: <d, logits> > 0 means beaten.
  function rivals(decision) {
    if (K === 1) return [{ signs: [decision ? 1 : -1], ties: decision === 0 }];
    return bias.map(function (_, k) { return k; }).filter(function (k) { return k !== decision; })
      .map(function (k) {
        const signs = bias.map(function (_, o) { return o === decision ? 1 : o === k ? -1 : 0; });
        return { signs: signs, ties: decision < k };
      });
  }

  function along(signs, row) {
    return signs.reduce(function (sum, d, k) { return sum + d * row(k); }, 0);
  }

  // Tokens against the rival, the largest N e^a (d.b + d.bias) first: exact for one map.
  function order(seen, rival) {
    const pull = seen.columns.slice(0, -1).map(function (s, j) {
      const d = along(rival.signs, function (k) { return valueOf(0, k, s) + bias[k]; });
      const log = d > 0 ? attention[s] + Math.log(seen.counts[j]) + Math.log(d) : -Infinity;
      return { place: j, log: log };
    });
    return pull.filter(function (one) { return one.log > -Infinity; })
      .sort(function (a, b) { return b.log - a.log || a.place - b.place; })
      .map(function (one) { return one.place; });
  }

  function first(stop, holds) {
    if (!holds(stop)) return null;
    let low = 0, high = stop;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (holds(middle)) high = middle; else low = middle + 1;
    }
    return low;
  }

  function prefix(seen, rival, flips) {
    const places = order(seen, rival);
    const size = first(places.length, function (k) {
      const keep = new Uint8Array(seen.columns.length).fill(flips ? 1 : 0);
      for (const j of places.slice(0, k)) keep[j] = flips ? 0 : 1;
      const logits = keptLogits(seen, keep);
      const margin = along(rival.signs, function (k) { return logits[k]; });
      return (margin > 0 || (margin === 0 && rival.ties)) !== flips;
    });
    return size === null ? null : places.slice(0, size);
  }

  // With several rivals: no token, or the first one, that alone keeps the decision; else undefined.
  function alone(seen, decision) {
    const size = seen.columns.length, keep = new Uint8Array(size);
    if (decide(keptLogits(seen, keep)) === decision) return [];
    for (let j = 0; j < size - 1 && size < 2000; j += 1) {
      keep[j] = 1;
      if (decide(keptLogits(seen, keep)) === decision) return [j];
      keep[j] = 0;
    }
    return undefined;
  }

  // The smallest sets, where their closed form is exact; undefined elsewhere, null: there is none.
  function smallest(seen, decision) {
    if (M > 1) return { sufficient: undefined, flipping: undefined };
    const all = rivals(decision);
    const flips = all.map(function (rival) { return prefix(seen, rival, true); })
      .filter(function (places) { return places !== null; })
      .sort(function (a, b) { return a.length - b.length; });
    const kept = K === 1 ? prefix(seen, all[0], false) : alone(seen, decision);
    const names = function (places) {
      return places.map(function (j) { return vocabulary[seen.columns[j]]; });
    };
    return {
      sufficient: kept && names(kept),
      flipping: flips.length ? names(flips[0]) : null,
    };
  }

  // Everything about one text; `output` is the class whose logit the contributions sum to.
  function explain(text, output) {
    const words = tokens(text), found = occurrences(words), seen = bag(found);
    const w = weights(seen), credit = contributions(seen, w), logits = logitsOf(credit);
    const decision = decide(logits);
    const k = K === 1 ? 0 : output === undefined ? decision : output;
    const place = new Map(seen.columns.map(function (s, j) { return [s, j]; }));
    const mean = seen.columns.map(function (_, j) {
      let sum = 0;
      for (let m = 0; m < M; m += 1) sum += w[m][j] / M;
      return sum;
    });
    // b_s; with several maps their mean by weight.
    const values = seen.columns.map(function (s, j) {
      if (M === 1) return valueOf(0, k, s);
      return mean[j] > 0 ? credit[k][j] / mean[j] : 0;
    });
    for (const one of found) {
      const j = place.get(one.column), times = seen.times.get(one.column);
      one.attention = mean[j] / times;
      one.contribution = credit[k][j] / times;
      one.value = values[j];
      const span = one.last - one.first + 1;
      for (let i = one.first; i <= one.last; i += 1) {
        words[i].attention += one.attention / span;
        words[i].contribution += one.contribution / span;
        words[i].known = true;
      }
    }
    return {
      text: text, words: words, occurrences: found, seen: seen, attention: mean, values: values,
      contributions: credit[k], logits: logits, decision: decision, output: k,
      probabilities: probabilities(logits),
    };
  }

  function effective(why) {
    const own = why.attention.slice(0, -1); // <cls> stands last, and aside
    const total = own.reduce(function (sum, x) { return sum + x; }, 0);
    const squares = own.reduce(function (sum, x) { return sum + x * x; }, 0);
    return squares > 0 ? total * total / squares : 0;
  }

  function carrying(why, share) {
    const sizes = why.contributions.map(Math.abs).sort(function (a, b) { return b - a; });
    const total = sizes.reduce(function (x, y) { return x + y; }, 0);
    let sum = 0, size = 0;
    while (total > 0 && sum < share * total * (1 - 1e-12)) { sum += sizes[size]; size += 1; }
    return size;
  }

  // Plain values, offsets in code points of the text: what Python's to_dict says.
  function plain(why) {
    const k = why.output, end = Array.from(why.text).length;
    const tokens = why.occurrences.map(function (one) {
      const first = why.words[one.first], last = why.words[one.last];
      return token(why.text.slice(first.start, last.end), first.from, last.to, one);
    });
    const constant = {
      attention: why.attention.at(-1), value: why.values.at(-1), contribution: why.contributions.at(-1),
    };
    return {
      text: why.text, label: data.classes[why.decision],
      explained_class: data.classes[K === 1 ? 1 : k],
      logit: why.logits[k], bias: bias[k], logits: why.logits,
      probabilities: why.probabilities.map(function (p, c) {
        return { label: data.classes[c], probability: p };
      }),
      tokens: hasConstant ? tokens.concat([token("<cls>", end, end, constant)]) : tokens,
    };
  }

  function token(text, start, end, one) {
    return {
      text: text, start: start, end: end,
      attention: one.attention, value: one.value, contribution: one.contribution,
    };
  }

  return {
    data: data, M: M, K: K, V: V, bias: bias, vocabulary: vocabulary,
    attention: attention, valueOf: valueOf, tokens: tokens, explain: explain, plain: plain,
    smallest: smallest, effective: effective, carrying: carrying,
  };
})();
// The one name the page gives to others: an explanation of any text, in plain values.
window.keytokens = { explain: function (text) { return model.plain(model.explain(text)); } };

// The text with its words marked: in passages, and a long text's are marked when they are looked at.
const PASSAGE = 400; // words

// Where the passage that begins with word i ends: its last word, and the place in the text; after
// a line or between words, where the text allows it.
const passageEnd = function (why, i) {
  const words = why.words, full = i + PASSAGE;
  if (full >= words.length) return { word: words.length, place: why.text.length };
  for (const stop of ["\n", " "]) {
    for (let k = full; k > full - PASSAGE / 2; k -= 1) {
      const at = why.text.slice(words[k - 1].end, words[k].start).lastIndexOf(stop);
      if (at >= 0) return { word: k, place: words[k - 1].end + at + 1 };
    }
  }
  return { word: full, place: words[full].start };
};

const passagesOf = function (why) {
  const found = [];
  let word = 0, place = 0;
  do {
    const end = passageEnd(why, word);
    found.push({ from: word, to: end.word, start: place, end: end.place });
    word = end.word;
    place = end.place;
  } while (word < why.words.length);
  return found;
};

const amountOf = function (word, layer) {
  if (layer === "attention") return word.attention;
  if (layer === "value") return word.attention > 0 ? word.contribution / word.attention : 0;
  return word.contribution;
};

const markedWord = function (word, piece, layer, largest) {
  if (!word.known) return node("span", { class: "unknown", title: "part of no token that the page knows" }, piece);
  const amount = amountOf(word, layer), k = level(amount, largest);
  if (k === 0) return piece;
  const kind = layer === "attention" ? "w" : amount > 0 ? "p" : "n";
  const told = "contribution " + signed(word.contribution) + ", attention " + shown(word.attention);
  return node("mark", { class: "t " + kind, "data-k": k, title: told }, piece);
};

const markedPassage = function (why, passage, layer, largest) {
  const pieces = [];
  let last = passage.start;
  for (let i = passage.from; i < passage.to; i += 1) {
    const word = why.words[i];
    pieces.push(why.text.slice(last, word.start),
      markedWord(word, why.text.slice(word.start, word.end), layer, largest));
    last = word.end;
  }
  pieces.push(why.text.slice(last, passage.end));
  return pieces;
};

// Shows explanations in the region; layer: contribution | attention | value.
const markedIn = function (region) {
  let waiting = new Map();
  const fill = function (part) {
    const pieces = waiting.get(part);
    if (!pieces) return;
    waiting.delete(part);
    part.replaceChildren(...pieces());
  };
  const looked = new IntersectionObserver(function (entries) {
    for (const entry of entries) if (entry.isIntersecting) { looked.unobserve(entry.target); fill(entry.target); }
  }, { root: region, rootMargin: "600px" });
  window.addEventListener("beforeprint", function () { for (const part of waiting.keys()) fill(part); });

  function show(why, layer) {
    const passages = passagesOf(why);
    let largest = 0;
    for (const word of why.words) largest = Math.max(largest, Math.abs(amountOf(word, layer)));
    looked.disconnect();
    waiting = new Map();
    if (passages.length === 1) return region.replaceChildren(...markedPassage(why, passages[0], layer, largest));
    region.replaceChildren(...passages.map(function (passage) {
      const part = node("div", { class: "passage" }, why.text.slice(passage.start, passage.end));
      waiting.set(part, function () { return markedPassage(why, passage, layer, largest); });
      looked.observe(part);
      return part;
    }));
    fill(region.firstChild);
  }
  return { show: show, fill: fill };
};

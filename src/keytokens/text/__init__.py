"""Reading texts, cutting them into tokens, counting n-grams. Knows nothing of attention."""

from keytokens.text.counter import Counter
from keytokens.text.reading import Table, read_batches, read_table
from keytokens.text.tokenizer import Tokenizer

__all__ = ["Counter", "Table", "Tokenizer", "read_batches", "read_table"]

"""The classifiers: validate, translate, call, store. No mathematics in here."""

from keytokens.classifier.counts import SelectionClassifier
from keytokens.classifier.stored import load
from keytokens.classifier.texts import KeyTokenClassifier

__all__ = ["KeyTokenClassifier", "SelectionClassifier", "load"]

"""Att-SVM: the max-margin direction of a selection, certified, or the proof that there is none."""

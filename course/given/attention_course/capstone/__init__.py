"""The contest of workshop 12d: who has the best cache in 100 MB?

A submitted file defines a class `Cache`. `rules` says what counts, `texts` makes the hidden texts, `score` runs the model on
the trusted side, `inside` runs the submitted class where nothing else is, `state` turns an object into the bytes that are
counted, and `baselines` holds our own entries. `attn capstone` puts the two sides together; `local` does so in one process,
for a notebook.
"""

"""Networks of our own. Every file imports torch at its top, so nothing imports them before a model is built."""

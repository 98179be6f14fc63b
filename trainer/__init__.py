"""The demo model's corpus and trainer: a developers' program beside kvloupe, which knows nothing of it."""

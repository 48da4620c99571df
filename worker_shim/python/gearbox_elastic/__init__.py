"""A decoder language model on several ranks whose parallel layout changes while it generates. See docs/engines.md."""

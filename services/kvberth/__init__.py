"""kvberth keeps an LLM engine's KV cache berthed beside it."""

__version__ = "0.1.0"

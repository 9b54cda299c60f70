"""A stand-in for an LLM engine on machines without a GPU: it uses the cache as the real ones do, and serves nothing."""

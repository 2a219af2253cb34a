"""The engine's side: starting a stock SGLang server, and the plugin inside of it."""

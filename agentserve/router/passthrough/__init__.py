"""SGLang's own API through the router: which worker a request goes to, and what is done to it."""

"""The browser side: a Playwright computer, local scenarios, and the observe-turn-act loop."""

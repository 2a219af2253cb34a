// Starts an episode as browser/miniwob.py does, in a page that may have shown others before.
(() => {
  const sheet = new CSSStyleSheet();

  // Restyle the page with a style sheet that is in no DOM tree; '' takes it away again.
  window.agentserveRestyle = css => {
    sheet.replaceSync(css);
    if (!document.adoptedStyleSheets.includes(sheet)) {
      document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    }
  };

  // Returns the goal.
  window.agentserveStart = seed => {
    document.activeElement.blur();
    Math.seedrandom(seed);
    core.EPISODE_MAX_TIME = 2e9;
    core.startEpisodeReal();
    core.clearTimer();
    document.getElementById('reward-display').style.display = 'none';
    document.documentElement.style.overflow = 'hidden';
    window.scrollTo(0, 0);
    return core.getUtterance();
  };
})();

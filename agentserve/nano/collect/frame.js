// Runs in every tile: starts an episode and tells what is to be seen.
(() => {
  // Of all tiles only one can have the focus, but every page takes it that it does. So elements that
  // a page focuses are marked, and the mark stands for :focus in style sheets and for scripts.
  const MARK = 'data-agentserve-focus';
  let focused = null;
  let mirrored = 0;

  const tell = (element, types) => {
    element.dispatchEvent(new FocusEvent(types[0]));
    element.dispatchEvent(new FocusEvent(types[1], { bubbles: true }));
  };
  const unmark = () => {
    if (focused) focused.removeAttribute(MARK);
    focused = null;
  };
  HTMLElement.prototype.blur = function () {
    if (this !== focused) return;
    unmark();
    tell(this, ['blur', 'focusout']);
  };
  HTMLElement.prototype.focus = function () {
    const focusable = this.tabIndex >= 0 || this.hasAttribute('tabindex');
    if (this === focused || this.disabled || !focusable || !this.checkVisibility()) return;
    if (focused) focused.blur();
    focused = this;
    this.setAttribute(MARK, '');
    tell(this, ['focus', 'focusin']);
  };
  Object.defineProperty(document, 'activeElement', {
    get: () => focused && focused.isConnected ? focused : document.body,
  });
  document.hasFocus = () => true;

  const mirrorFocusRules = () => {
    if (!focused || mirrored === document.styleSheets.length) return;
    for (const each of [...document.styleSheets].slice(mirrored)) {
      for (let i = each.cssRules.length - 1; i >= 0; i--) {
        const { selectorText, cssText } = each.cssRules[i];
        if (selectorText && selectorText.includes(':focus')) {
          each.insertRule(cssText.replace(/:focus(-visible)?(?![\w-])/g, `[${MARK}]`), i + 1);
        }
      }
    }
    mirrored = document.styleSheets.length;
    document.styleSheets[0].insertRule( // the browser's own rule, at no specificity
      `:where([${MARK}]) { outline: -webkit-focus-ring-color auto 1px; }`, 0,
    );
  };

  // Animations are shown at their end, as Playwright's screenshots show them.
  const endAnimations = () => {
    for (const animation of document.getAnimations()) {
      try {
        animation.finish();
      } catch {
        animation.cancel(); // it would never end
      }
    }
  };

  const imagesLoaded = () => Promise.all(
    [...document.images].filter(image => !image.complete).map(image => image.decode().catch(() => 0)),
  );

  window.agentserveBegin = async (task, seed, css) => {
    window.agentserveRestyle(css);
    let goal = '';
    if (window.agentserveWords) window.agentserveWords(seed);
    else goal = window.agentserveStart(seed);
    mirrorFocusRules();
    await imagesLoaded();
    endAnimations();
    const told = { goal, step: null, ...window.agentserveScreen() };
    if (window.agentserveOracle && !window.agentserveWords) {
      try {
        told.step = window.agentserveOracle(task, goal);
      } catch (error) {
        told.problem = String(error);
      }
    }
    return told;
  };
})();

// What the theme makes after a page is loaded, for keyboards and readers of screens: tables that scroll can be
// reached, and the buttons of a code block, or the entries below a heading, are a group and no landmark.
const mend = () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) box.tabIndex = 0;
  for (const nav of document.querySelectorAll(".md-code__nav:not([role]), nav nav:not([role])")) nav.setAttribute("role", "group");
};
new MutationObserver(mend).observe(document.documentElement, { childList: true, subtree: true });
mend();

// What the theme makes after a page is loaded, for keyboards and readers of screens: tables that scroll can be
// reached, and landmarks have names that differ.
const names = new Map();
const mend = () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) box.tabIndex = 0;
  for (const nav of document.querySelectorAll("nav:not([data-named]):not([aria-labelledby])")) {
    const label = (nav.getAttribute("aria-label") ?? "Code").trim();
    const count = (names.get(label.toLowerCase()) ?? 0) + 1;
    names.set(label.toLowerCase(), count);
    nav.dataset.named = "";
    nav.setAttribute("aria-label", count > 1 ? `${label} ${count}` : label);
  }
};
new MutationObserver(mend).observe(document.documentElement, { childList: true, subtree: true });
mend();

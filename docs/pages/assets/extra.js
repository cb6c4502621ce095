// What the theme makes after a page is loaded, for keyboards and readers of screens: tables that scroll can be
// reached, and landmarks have names that differ.
const names = new Map();
const mend = () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) box.tabIndex = 0;
  for (const nav of document.querySelectorAll("nav:not([data-named]):not([aria-labelledby])")) {
    const label = (nav.getAttribute("aria-label") ?? "Code").trim();
    names.set(label, (names.get(label) ?? 0) + 1);
    nav.dataset.named = "";
    nav.setAttribute("aria-label", names.get(label) > 1 ? `${label} ${names.get(label)}` : label);
  }
};
new MutationObserver(mend).observe(document.documentElement, { childList: true, subtree: true });
mend();

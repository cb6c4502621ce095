// Looks at every page of a site: node look.mjs site browser. Exits with 1 where something was found.
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { chromium } from "playwright-core";

const [site, browserPath] = process.argv.slice(2);
const axe = fs.readFileSync("node_modules/axe-core/axe.min.js", "utf8");
const kinds = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".json": "application/json" };

// Rules that the theme breaks and a page cannot mend, each with its reason.
const leftOut = {};

const server = http.createServer((request, answer) => {
  const file = path.join(site, decodeURIComponent(new URL(request.url, "http://localhost").pathname));
  if (!file.startsWith(site) || !fs.existsSync(file) || fs.statSync(file).isDirectory()) return answer.writeHead(404).end();
  answer.writeHead(200, { "content-type": kinds[path.extname(file)] ?? "application/octet-stream" });
  fs.createReadStream(file).pipe(answer);
});
await new Promise((ready) => server.listen(0, ready));
const origin = `http://localhost:${server.address().port}/`;

const pages = fs.readdirSync(site, { recursive: true }).filter((name) => name.endsWith(".html") && name !== "404.html").sort();
const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
const found = [];
for (const [width, height] of [[390, 844], [1280, 900]]) {
  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme });
    const page = await context.newPage();
    let where = "";
    const report = (what) => found.push(`${where}: ${what}`);
    page.on("request", (r) => !r.url().startsWith(origin) && !r.url().startsWith("data:") && report(`fetches ${r.url()}`));
    page.on("response", (r) => r.status() >= 400 && report(`${r.status()} of ${r.url()}`));
    page.on("pageerror", (error) => report(error.message));
    for (const name of pages) {
      where = `${name} (${width} px, ${colorScheme})`;
      await page.goto(origin + name, { waitUntil: "load" });
      if (process.env.IMAGES) {
        const image = `images/${name.replaceAll("/", "_").replace(".html", "")}-${width}-${colorScheme}.png`;
        await page.screenshot({ path: image, fullPage: false });
      }
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (wide > 0) report(`is ${wide} px wider than the window`);
      await page.evaluate(axe);
      const result = await page.evaluate(() => window.axe.run());
      for (const rule of result.violations) {
        if (rule.id in leftOut) continue;
        const nodes = rule.nodes.map((node) => node.target.join(" "));
        report(`${rule.id} (${rule.impact}): ${rule.help}: ${nodes.slice(0, 3).join(", ")}${nodes.length > 3 ? ` and ${nodes.length - 3} more` : ""}`);
      }
    }
    await context.close();
  }
}
await browser.close();
server.close();
for (const line of found) console.log(line);
console.log(`${pages.length} pages, two widths, two schemes: ${found.length} findings`);
for (const [rule, why] of Object.entries(leftOut)) console.log(`left out: ${rule}: ${why}`);
process.exit(found.length ? 1 : 0);

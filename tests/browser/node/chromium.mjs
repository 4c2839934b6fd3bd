// Unpacks the package's Chromium into TMPDIR and prints its path.
import chromium from "@sparticuz/chromium";

console.log(await chromium.executablePath());

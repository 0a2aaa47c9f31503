// node tokens.cjs FOLDER: reads a JSON list of texts from stdin and prints a JSON list of their numbers of o200k tokens.
// FOLDER is where npm has installed gpt-tokenizer, which has the ranks inside.
const { readFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const { resolve } = require("node:path");

const { encode } = createRequire(resolve(process.argv[2], "package.json"))("gpt-tokenizer/encoding/o200k_base");
const texts = JSON.parse(readFileSync(0, "utf8"));
// Special tokens in the output of a command are plain text.
const counts = texts.map((text) => encode(text, { allowedSpecial: new Set(), disallowedSpecial: new Set() }).length);
console.log(JSON.stringify(counts));

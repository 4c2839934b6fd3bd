// Runs beside the installed SDKs: node ai_sdk.mjs PACKAGE FILE, FILE holding {name: [UIMessage]}.
// Prints {name: {problem: null | text, said: [text of each assistant text part, as the model will be told it], called:
// [input of each call], given: [output of each result]}}.

import { readFileSync } from "node:fs";

const [packageName, file] = process.argv.slice(2);
const { convertToModelMessages, safeValidateUIMessages } = await import(packageName);

async function check(messages) {
  const valid = await safeValidateUIMessages({ messages });
  if (!valid.success) return { problem: String(valid.error) };
  try {
    const converted = await convertToModelMessages(valid.data);
    const spoken = converted.filter((message) => message.role === "assistant").flatMap((message) => message.content);
    const told = converted.filter(({ role }) => role === "tool").flatMap(({ content }) => content);
    return {
      problem: null,
      said: spoken.filter((part) => part.type === "text").map((part) => part.text),
      called: spoken.filter((part) => part.type === "tool-call").map((part) => part.input),
      given: told.filter(({ type }) => type === "tool-result").map((part) => part.output.value),
    };
  } catch (error) {
    return { problem: String(error) };
  }
}

const found = {};
for (const [name, messages] of Object.entries(JSON.parse(readFileSync(file, "utf8")))) found[name] = await check(messages);
process.stdout.write(JSON.stringify(found));

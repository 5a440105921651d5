// Conversations as JSON: what files hold that leave this page and come back, and what the browser keeps. Nothing in it is trusted.
//   {"lacuna_conversations": 1, "conversations": [{"title", "system", "messages": [{"role", "content", "stopped", "before", "after"}]}]}
// "stopped" marks an answer that ended early; "before" and "after" are other versions of a message (branches.js).

const VERSION = 1;
export const MOST_CONVERSATIONS = 200;
const MOST_MESSAGES = 20_000;  // of a conversation, those of all versions counted
const MOST_DEPTH = 200;         // of versions in each other
const MOST_TITLE_LETTERS = 200;
const MOST_BYTES = 8 << 20;  // of a file; browsers keep about 5 million characters
const MOST_SHOWN = 40;          // characters of a value that is refused
const MOST_PLACE = 120;         // characters of its place
const ROLES = ["user", "assistant"];

/// The text of a file of conversations.
export function fileOf(conversations) {
  const plain = conversations.map(({ title, system, messages }) => ({ title, system, messages }));
  return JSON.stringify({ lacuna_conversations: VERSION, conversations: plain }, null, 2);
}

/// The conversations of a file: [{title, system, messages}], made anew. Throws an Error with one sentence that names the field.
///   file  has size and text()
export async function conversationsOf(file) {
  if (file.size > MOST_BYTES) throw new Error(`the file has ${file.size} bytes; accepted: at most ${MOST_BYTES}`);
  const value = parse(await file.text());
  expect(value?.lacuna_conversations === VERSION, "lacuna_conversations", value?.lacuna_conversations, `${VERSION}`);
  const { conversations } = value;
  expect(isListWithin(conversations, MOST_CONVERSATIONS), "conversations", conversations, `a list of at most ${MOST_CONVERSATIONS}`);
  return conversations.map((each, index) => conversationOf(each, `conversations[${index}]`));
}

/// One conversation, made anew of the fields that are known. Throws as conversationsOf() does.
export function conversationOf(value, place) {
  const { title, system = "", messages } = value ?? {};
  expect(typeof title === "string" && title.length <= MOST_TITLE_LETTERS, `${place}.title`, title,
         `a text of at most ${MOST_TITLE_LETTERS} characters`);
  expect(typeof system === "string", `${place}.system`, system, "a text");
  return { title, system, messages: messagesOf(messages, `${place}.messages`, { messages: MOST_MESSAGES }, 0) };
}

/// `left` counts down what the conversation may still have.
function messagesOf(value, place, left, depth) {
  expect(isListWithin(value, left.messages), place, value, `a list of at most ${left.messages}`);
  left.messages -= value.length;
  return value.map((each, index) => messageOf(each, `${place}[${index}]`, left, depth));
}

function messageOf(value, place, left, depth) {
  const { role, content } = value ?? {};
  expect(ROLES.includes(role), `${place}.role`, role, ROLES.map((each) => `"${each}"`).join(", "));
  expect(typeof content === "string", `${place}.content`, content, "a text");
  const message = { role, content, ...(value.stopped === true ? { stopped: true } : {}) };
  const { before = [], after = [] } = value;
  if (before.length === 0 && after.length === 0) return message;
  return { ...message, before: tailsOf(before, `${place}.before`, left, depth), after: tailsOf(after, `${place}.after`, left, depth) };
}

function tailsOf(value, place, left, depth) {
  expect(depth < MOST_DEPTH, place, value, `versions in each other ${MOST_DEPTH} times`);
  expect(isListWithin(value, left.messages), place, value, `a list of at most ${left.messages}`);
  return value.map((tail, index) => {
    const messages = messagesOf(tail, `${place}[${index}]`, left, depth + 1);
    expect(messages.length > 0, `${place}[${index}]`, tail, "a list that is not empty");
    return messages;
  });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("the file is not valid JSON; accepted: a file that this page exported");
  }
}

const isListWithin = (value, most) => Array.isArray(value) && value.length <= most;

function expect(holds, place, value, accepted) {
  if (holds) return;
  const where = place.length <= MOST_PLACE ? place : `${place.slice(0, MOST_PLACE)}…`;
  throw new Error(`${where} is ${shown(value)}; accepted: ${accepted}`);
}

function shown(value) {
  if (value === undefined) return "missing";
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object" && value !== null) return "an object";
  const text = JSON.stringify(value);
  return text.length <= MOST_SHOWN ? text : `${text.slice(0, MOST_SHOWN)}…`;
}

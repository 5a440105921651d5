// Conversations as JSON: what files hold that leave this page and come back, and what the browser keeps. Nothing in it is trusted.
//   {"lacuna_conversations": 1, "conversations": [{"title", "system", "messages": [{"role", "content"}]}]}

const VERSION = 1;
export const MOST_CONVERSATIONS = 200;
const MOST_MESSAGES = 2000;  // of a conversation
const MOST_TITLE_LETTERS = 200;
const MOST_BYTES = 8 << 20;  // of a file; browsers keep about 5 million characters
const MOST_SHOWN = 40;       // characters of a value that is refused
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
  expect(isListWithin(messages, MOST_MESSAGES), `${place}.messages`, messages, `a list of at most ${MOST_MESSAGES}`);
  return { title, system, messages: messages.map((each, index) => messageOf(each, `${place}.messages[${index}]`)) };
}

function messageOf(value, place) {
  const { role, content } = value ?? {};
  expect(ROLES.includes(role), `${place}.role`, role, ROLES.map((each) => `"${each}"`).join(", "));
  expect(typeof content === "string", `${place}.content`, content, "a text");
  return { role, content };
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("the file is not JSON; accepted: a file that this page exported");
  }
}

const isListWithin = (value, most) => Array.isArray(value) && value.length <= most;

function expect(holds, place, value, accepted) {
  if (!holds) throw new Error(`${place} is ${shown(value)}; accepted: ${accepted}`);
}

function shown(value) {
  if (value === undefined) return "missing";
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object" && value !== null) return "an object";
  const text = JSON.stringify(value);
  return text.length <= MOST_SHOWN ? text : `${text.slice(0, MOST_SHOWN)}…`;
}

// The tab of conversations: several turns, each answer a run.
import { dropVersion, putAway, showVersion, versionsOf } from "./branches.js";
import { Conversations } from "./conversations.js";
import { ConversationList, tool } from "./conversation_list.js";
import { by, copyText, make } from "./dom.js";
import { markdownOf } from "./markdown.js";
import { noTexts } from "./models.js";
import { LOGPROBS_OF_CHATS, Runs } from "./runs.js";

const PREVIOUS = "Previous version";
const NEXT = "Next version";

export class ChatTab {
  name = "chat";
  action = "Send";

  /// `app` has props, start(action), settings, common(lacuna), length().
  constructor(app) {
    this.app = app;
    this.conversations = new Conversations();
    this.list = new ConversationList(this.conversations, () => this.show());
    this.views = new WeakMap();  // of the messages that were written since the page was opened
    this.elements = new WeakMap();  // of the messages that are or were shown
    this.writing = null;            // the message that is being written
    this.runs = new Runs(by("results-chat"), app);
    by("system").addEventListener("change", () => {
      this.current.system = by("system").value;
      this.save();
    });
    by("prompt").addEventListener("keydown", (event) => {
      const sends = event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.isComposing;
      if (!sends) return;
      event.preventDefault();
      by("request").requestSubmit(by("run"));
    });
    if (this.current.messages.length > 0) by("prompt").value = "";
    this.show();
  }

  get current() {
    return this.conversations.current;
  }

  obstacle(props) {
    return noTexts(props);
  }

  // Requests.

  requests() {
    return this.requestsOf([...this.current.messages, { role: "user", content: by("prompt").value }]);
  }

  requestsOf(messages) {
    const system = this.current.system.trim() === "" ? [] : [{ role: "system", content: this.current.system }];
    const plain = messages.map(({ role, content }) => ({ role, content }));
    return this.app.settings.chosen().map(({ title, lacuna }) => ({
      title, path: "v1/chat/completions",
      body: { messages: [...system, ...plain], ...this.app.length(), ...LOGPROBS_OF_CHATS, ...this.app.common(lacuna) },
    }));
  }

  async run(signal) {
    const content = by("prompt").value;
    if (content.trim() === "") return;
    by("prompt").value = "";
    this.current.messages.push({ role: "user", content });
    await this.answer(signal);
  }

  /// Asks for an answer to the messages that there are. With two settings the first one's is kept.
  ///   others  its other versions, as putAway() gives them
  async answer(signal, others = {}) {
    const { current } = this;
    const message = { role: "assistant", content: "", ...others };
    this.writing = message;
    const jobs = this.requestsOf([...current.messages]);
    current.messages.push(message);
    this.save();
    this.show();
    jobs[0].onText = (text) => {
      message.content += text;
      const element = this.elements.get(message);  // another one after other conversations were looked at
      element.querySelector(".text").append(text);
      element.scrollIntoView({ block: "nearest" });
    };
    const [first] = await this.runs.run(jobs, signal);
    this.writing = null;
    this.views.set(message, this.runs.views);
    if (message.content === "" && first.outcome !== "done") dropVersion(current.messages, current.messages.indexOf(message));
    this.save();
    this.show();
  }

  // Messages.

  save() {
    this.list.save();
  }

  show() {
    this.list.show();
    by("system").value = this.current.system ?? "";
    by("messages").replaceChildren(...this.current.messages.map((message, index) => this.elementOf(message, index)));
    by("messages").lastElementChild?.scrollIntoView({ block: "nearest" });
    this.app.showChoices();
  }

  elementOf(message, index) {
    const isUser = message.role === "user";
    const isLast = index === this.current.messages.length - 1;
    const copy = tool("Copy", "", () => copyText(message.content, copy));
    const tools = make("div", { className: "tools" }, copy);
    if (isUser) tools.append(tool("Edit", "", () => this.edit(index)));
    if (isUser && isLast) tools.append(tool("Send again", "", () => this.app.start((signal) => this.answer(signal))));
    if (!isUser && isLast) {
      tools.append(tool("Regenerate", "", () => this.regenerate(index), "Writes another version of the answer, with the next seed"));
    }
    if (this.views.has(message)) tools.append(tool("Show the run", "", () => this.showRun(message)));
    if (versionsOf(message).count > 1) tools.append(...this.versionTools(message, index));
    const isWriting = message === this.writing;
    const text = isUser || isWriting ? make("p", { className: "text" }, message.content)
      : make("div", { className: "text markdown" }, ...markdownOf(message.content));
    const element = make("article", { className: `message ${message.role}`, "aria-label": isUser ? "You" : "Answer" }, text, tools);
    element.classList.toggle("writing", isWriting);
    this.elements.set(message, element);
    return element;
  }

  versionTools(message, index) {
    const { at, count } = versionsOf(message);
    const go = (step) => {
      if (this.app.running !== null) return;  // what is being written keeps its place
      showVersion(this.current.messages, index, step);
      this.save();
      this.show();
      const arrow = (name) => this.elements.get(this.current.messages[index]).querySelector(`[aria-label="${name}"]:not(:disabled)`);
      const names = step < 0 ? [PREVIOUS, NEXT] : [NEXT, PREVIOUS];
      (arrow(names[0]) ?? arrow(names[1])).focus();
    };
    const back = tool("‹", PREVIOUS, () => go(-1));
    const on = tool("›", NEXT, () => go(1));
    back.disabled = at === 1;
    on.disabled = at === count;
    return [back, make("span", { className: "version" }, `${at} of ${count}`), on];
  }

  /// Puts a message back to where messages are written. The old one stays a version, with what came after it.
  edit(index) {
    const { current } = this;
    const element = by("messages").children[index];
    const field = make("textarea", { rows: 3, value: current.messages[index].content, "aria-label": "Message" });
    const send = tool("Send", "", () => this.app.start(async (signal) => {
      const others = putAway(current.messages, index);
      current.messages.push({ role: "user", content: field.value, ...others });
      await this.answer(signal);
    }));
    element.replaceChildren(field, make("div", { className: "tools" }, send, tool("Cancel", "", () => this.show())));
    field.focus();
  }

  showRun(message) {
    this.runs.show(this.views.get(message));
    this.runs.compare();
  }

  regenerate(index) {
    this.app.start(async (signal) => {
      by("seed").value = (by("seed").valueAsNumber || 0) + 1;
      await this.answer(signal, putAway(this.current.messages, index));
    });
  }
}

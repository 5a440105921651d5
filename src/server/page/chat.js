// The tab of conversations: several turns, each answer a run.
import { dropVersion, putAway, showVersion, versionsOf } from "./branches.js";
import { Conversations } from "./conversations.js";
import { ConversationList, tool } from "./conversation_list.js";
import { by, copyText, make } from "./dom.js";
import { markdownOf } from "./markdown.js";
import { noTexts } from "./models.js";
import { LOGPROBS_OF_CHATS, Runs } from "./runs.js";

const MAX_MARKED = 1 << 17;  // characters of a conversation that are shown as Markdown
const COUNT = new Intl.NumberFormat("en");
const PREVIOUS = "Previous version";
const NEXT = "Next version";

export class ChatTab {
  name = "chat";
  action = "Send";

  /// `app` has props, start(action), settings, common(lacuna), length().
  constructor(app) {
    this.app = app;
    this.conversations = new Conversations();
    this.list = new ConversationList(this.conversations, () => this.change());
    this.views = new WeakMap();  // of the messages that were written since the page was opened
    this.elements = new WeakMap();  // of the messages that are or were shown
    this.writing = null;            // the message that is being written
    this.place = by("results-chat");  // of the runs; it moves from message to message
    this.runs = new Runs(this.place, app, () => this.placeRuns());
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

  /// Asks for an answer to the messages that there are. With two settings the first one's is kept. One that ends early is kept as it
  /// is and marked; one that ends before any text was final is taken back, with the message that it was to answer.
  ///   others  its other versions, as putAway() gives them
  async answer(signal, others = {}) {
    const { current } = this;
    const message = { role: "assistant", content: "", ...others };
    this.writing = message;
    const jobs = this.requestsOf([...current.messages]);
    current.messages.push(message);
    this.save();
    this.show();
    this.elements.get(message).scrollIntoView({ block: "start" });
    jobs[0].onText = (text) => {
      message.content += text;
      const element = this.elements.get(message);  // another one after other conversations were looked at
      element.querySelector(".text").append(text);
    };
    const results = await this.runs.run(jobs, signal);
    const [first] = results;
    this.writing = null;
    if (message.content !== "" || first.outcome === "done") this.views.set(message, results.map(({ view }) => view));
    else this.takeBack(current);
    if (first.outcome !== "done") message.stopped = true;
    this.save();
    this.show();
  }

  /// Removes the last answer. Where it was not another version of one, its message goes back to the field, too.
  takeBack(conversation) {
    const { messages } = conversation;
    const count = messages.length;
    dropVersion(messages, count - 1);
    if (messages.length === count || conversation !== this.current) return;
    const { content } = messages.at(-1);
    dropVersion(messages, count - 2);
    by("prompt").value = [content, by("prompt").value].filter((text) => text !== "").join("\n\n");
  }

  // Messages.

  save() {
    this.list.save();
  }

  show() {
    const focused = document.activeElement;
    const top = by("results").scrollTop;
    this.list.show();
    by("system").value = this.current.system ?? "";
    this.marked = markedOf(this.current.messages);
    by("messages").replaceChildren(...this.current.messages.map((message, index) => this.elementOf(message, index)));
    this.placeRuns();
    by("results").scrollTop = top;
    if (this.place.contains(focused)) focused.focus({ preventScroll: true });
    this.showContext();
    this.app.showChoices();
  }

  /// Shows another conversation, or another version of this one: from the end.
  change() {
    if (this.writing === null && !this.owner) this.runs.show([]);
    this.show();
    by("results").scrollTop = by("results").scrollHeight;
  }

  /// The message that the shown runs wrote; undefined: they were recorded, or their answer was taken back.
  get owner() {
    return this.writing ?? this.current.messages.find((message) => this.hasRunShown(message));
  }

  hasRunShown(message) {
    return this.views.get(message)?.includes(this.runs.views[0]) ?? false;
  }

  /// Puts the runs below their message.
  placeRuns() {
    const { owner } = this;
    const isElsewhere = owner !== undefined && !this.current.messages.includes(owner);
    this.place.hidden = isElsewhere;
    if (owner && !isElsewhere) this.elements.get(owner).append(this.place);
    else by("messages").after(this.place);
  }

  /// How much of the context the conversation takes, without the message that is still being typed.
  async showContext() {
    const { current, app } = this;
    const [{ body: { messages } }] = app.props?.has_tokenizer && this.writing === null ? this.requestsOf(current.messages) : [{ body: {} }];
    by("context").replaceChildren();
    if (!messages?.length) return;
    const reply = await app.ask("apply-template", { body: { ...app.models.field, messages } }).catch(() => null);
    const { tokens } = (await reply?.json()) ?? {};
    if (!tokens || current !== this.current || this.writing !== null) return;
    const bar = make("span", { className: "bar", ariaHidden: "true" });
    bar.style.setProperty("--share", Math.min(tokens.length / app.props.context, 1));
    const says = `Context: ${COUNT.format(tokens.length)} of ${COUNT.format(app.props.context)}`;
    by("context").replaceChildren(bar, says, make("span", { className: "wide" }, "tokens"));
  }

  /// The tab is shown, or the server is known by now.
  open() {
    this.showContext();
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
    if (message.stopped) tools.append(make("span", { className: "version" }, "ended early"));
    if (this.views.has(message)) tools.append(this.runTool(message));
    if (versionsOf(message).count > 1) tools.append(...this.versionTools(message, index));
    const isWriting = message === this.writing;
    const text = isUser || isWriting || !this.marked.has(message) ? make("p", { className: "text" }, message.content)
      : make("div", { className: "text markdown" }, ...markdownOf(message.content));
    const element = make("article", { className: `message ${message.role}`, "aria-label": isUser ? "You" : "Answer" }, text);
    if (!isWriting) element.append(tools);
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
      if (!this.owner) this.runs.show([]);
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

  /// Shows the run of an answer, or no run.
  runTool(message) {
    const isShown = this.hasRunShown(message);
    const show = () => {
      if (this.app.running !== null) return;  // what is being written is shown
      this.runs.show(isShown ? [] : this.views.get(message));
      this.runs.compare();
      this.show();
      this.elements.get(message).querySelector("[aria-expanded]").focus();
    };
    const button = tool(isShown ? "Hide the run" : "Show the run", "", show);
    button.setAttribute("aria-expanded", isShown);
    return button;
  }

  regenerate(index) {
    this.app.start(async (signal) => {
      by("seed").value = (by("seed").valueAsNumber || 0) + 1;
      await this.answer(signal, putAway(this.current.messages, index));
    });
  }
}

/// The messages that are shown as Markdown: the last ones. What comes before stays as it was written.
function markedOf(messages) {
  let left = MAX_MARKED;
  return new Set(messages.toReversed().filter(({ content }) => (left -= content.length) >= 0));
}

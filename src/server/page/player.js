// Plays a run: one pass after the other at a chosen pace, or each as long as it took.

/// Passes per second, by the value of a choice; "recorded" plays by the time of each pass.
export const SPEEDS = [
  ["2", "2 passes/s"], ["6", "6 passes/s"], ["20", "20 passes/s"], ["60", "60 passes/s"], ["recorded", "as recorded"],
];
export const DEFAULT_SPEED = "6";

export class Player {
  /// `view` has `at`, `count`, and show(at).
  ///   onChange  hears when it starts and stops
  constructor(view, onChange) {
    this.view = view;
    this.onChange = onChange;
    this.timer = null;
    this.speed = DEFAULT_SPEED;
    this.slowness = 1;  // duration relative to the recorded one, for "as recorded"
  }

  get isPlaying() {
    return this.timer !== null;
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  play() {
    clearTimeout(this.timer);
    if (this.view.count === 0) return;
    if (this.view.at >= this.view.count) this.view.show(0);
    this.due = performance.now();
    this.wait();
    this.onChange();
  }

  pause() {
    if (!this.isPlaying) return;
    clearTimeout(this.timer);
    this.timer = null;
    this.onChange();
  }

  /// Waits for the time at which the next pass is due; several may be due within one frame.
  wait() {
    this.due += this.millisecondsOf(this.view.at);
    this.timer = setTimeout(() => this.advance(), Math.max(this.due - performance.now(), 0));
  }

  advance() {
    const now = performance.now();
    let at = this.view.at + 1;
    while (at < this.view.count && this.due + this.millisecondsOf(at) <= now) {
      this.due += this.millisecondsOf(at);
      at += 1;
    }
    this.view.show(at);
    if (at >= this.view.count) this.pause();
    else this.wait();
  }

  millisecondsOf(pass) {
    return this.speed === "recorded" ? this.slowness * this.view.millisecondsOf(pass) : 1000 / Number(this.speed);
  }
}

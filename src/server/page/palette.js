// Colours of tokens: two ramps for each scheme, computed here because the grid, the map and exported images
// share them. The lightness of every stop keeps a contrast of at least 4.5 to the scheme's text.

const RAMPS = {
  light: {
    age: [[0.955, 0.05, 95], [0.88, 0.085, 165], [0.76, 0.105, 240]],
    confidence: [[0.76, 0.14, 48], [0.87, 0.1, 80], [0.94, 0.03, 200]],
  },
  dark: {
    age: [[0.35, 0.03, 85], [0.42, 0.08, 175], [0.48, 0.13, 250]],
    confidence: [[0.48, 0.13, 45], [0.44, 0.08, 75], [0.34, 0.035, 220]],
  },
};

/// Other colours of the map and of images, by scheme; those of the page are in page.css.
export const SHADES = {
  light: {
    paper: "#ffffff", ink: "#1f1d1a", soft: "#625d54", hole: "#e9e4da", computed: "#e6e1d6", accent: "#1c5d87", bar: "#a19a89",
  },
  dark: {
    paper: "#1d2024", ink: "#ece9e3", soft: "#a8a298", hole: "#353a41", computed: "#343a42", accent: "#86c1ea", bar: "#7d858f",
  },
};

/// "light" or "dark": what the page shows now.
export function currentScheme() {
  const { theme } = document.documentElement.dataset;
  if (theme === "light" || theme === "dark") return theme;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/// "#rrggbb" at `share` (0 to 1) of a ramp: "age" from the first to the last, "confidence" from unsure to sure.
export function colourOf(scheme, ramp, share) {
  const stops = RAMPS[scheme][ramp].map(labOf);
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const index = Math.min(Math.floor(at), stops.length - 2);
  return hexOf(stops[index].map((value, i) => value + (at - index) * (stops[index + 1][i] - value)));
}

function labOf([lightness, chroma, hue]) {
  const angle = (hue * Math.PI) / 180;
  return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
}

/// OKLab to sRGB (Ottosson 2020).
function hexOf([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return `#${linear.map((value) => byteOf(value).toString(16).padStart(2, "0")).join("")}`;
}

function byteOf(linear) {
  const value = Math.min(Math.max(linear, 0), 1);
  return Math.round(255 * (value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055));
}

#include "app/scene/svg_backend.h"

#include <fmt/format.h>

#include <iterator>

#include "app/scene/png_encoder.h"
#include "app/scene/scene.h"
#include "app/scene/svg_text.h"

namespace kvloupe::figure {

namespace {

std::string svg_number(double value) { return xml_number(value); }

std::string paint(std::string_view name, Colour c) {
  std::string out = fmt::format(" {}=\"#{:02x}{:02x}{:02x}\"", name, c.red, c.green, c.blue);
  if (c.alpha != 255) out += fmt::format(" {}-opacity=\"{}\"", name, svg_number(c.alpha / 255.0));
  return out;
}

std::string style_of(const std::optional<Colour>& fill, const std::optional<Stroke>& stroke) {
  std::string out = fill ? paint("fill", *fill) : std::string(" fill=\"none\"");
  if (stroke) {
    out += paint("stroke", stroke->colour) + " stroke-width=\"" + svg_number(stroke->width) + '"';
    if (stroke->cap == Cap::round) out += " stroke-linecap=\"round\" stroke-linejoin=\"round\"";
    if (!stroke->dash.empty()) {
      out += " stroke-dasharray=\"";
      for (std::size_t i = 0; i < stroke->dash.size(); ++i) {
        if (i > 0) out += ' ';
        out += svg_number(stroke->dash[i]);
      }
      out += '"';
    }
  }
  return out;
}

class SvgWriter {
 public:
  explicit SvgWriter(std::string& out) : out_(out) {}

  void operator()(const Path& path) {
    out_ += "<path d=\"";
    append_svg_path(out_, path, svg_number);
    out_ += '"' + style_of(path.fill, path.stroke) + "/>\n";
  }

  void operator()(const Markers& markers) {
    if (markers.points.empty()) return;
    const Path one = marker_path(markers.shape, markers.size);
    out_ += "<path d=\"";
    for (const Point p : markers.points) append_svg_path(out_, one, svg_number, p);
    out_ += '"' + style_of(markers.fill, markers.stroke) + "/>\n";
  }

  void operator()(const Text& text) {
    const char* anchor = text.align == Align::left     ? ""
                         : text.align == Align::centre ? " text-anchor=\"middle\""
                                                       : " text-anchor=\"end\"";
    const char* font = text.font == Font::regular ? ""
                       : text.font == Font::bold  ? " font-weight=\"700\""
                       : text.font == Font::italic
                           ? " font-style=\"italic\""
                           : " font-family=\"'JetBrains Mono', 'DejaVu Sans Mono', "
                             "'DejaVu Sans', monospace\"";
    const std::string x = svg_number(text.anchor.x);
    const std::string y = svg_number(text.anchor.y);
    out_ += "<text x=\"" + x + "\" y=\"" + y + "\" font-size=\"" + svg_number(text.size) + '"' +
            anchor + font + shaping_attributes(text);
    if (text.turned) out_ += " transform=\"rotate(-90 " + x + ' ' + y + ")\"";
    out_ +=
        paint("fill", text.colour) + " xml:space=\"preserve\">" + xml_text(text.text) + "</text>\n";
  }

  void operator()(const Image& image) {
    if (!image.pixels) return;
    out_ += "<image x=\"" + svg_number(image.rect.x) + "\" y=\"" + svg_number(image.rect.y) +
            "\" width=\"" + svg_number(image.rect.width) + "\" height=\"" +
            svg_number(image.rect.height) + "\" preserveAspectRatio=\"none\"";
    if (image.interpolation == Interpolation::nearest) {
      out_ += " image-rendering=\"optimizeSpeed\" style=\"image-rendering:pixelated\"";
    }
    out_ +=
        " xlink:href=\"data:image/png;base64," + base64(encode_png(*enlarged(image))) + "\"/>\n";
  }

  void operator()(const PushClip& clip) {
    const int id = ++clips_;
    const Rect& r = clip.rect;
    out_ += fmt::format(
        "<clipPath id=\"clip{}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n"
        "<g clip-path=\"url(#clip{})\">\n",
        id, svg_number(r.x), svg_number(r.y), svg_number(r.width), svg_number(r.height), id);
  }

  void operator()(const PopClip&) { out_ += "</g>\n"; }

 private:
  std::string& out_;
  int clips_ = 0;
};

}  // namespace

std::string write_svg(const Scene& scene, double pixels_per_point) {
  const bool pixels = pixels_per_point > 0;
  const double outer = pixels ? pixels_per_point : 1.0;
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" "
      "version=\"1.1\" width=\"{0}{2}\" height=\"{1}{2}\" viewBox=\"0 0 {3} {4}\" "
      "font-family=\"Inter, 'DejaVu Sans', sans-serif\" stroke-miterlimit=\"{5}\" "
      "style=\"font-kerning:none;font-variant-ligatures:none\">\n",
      svg_number(scene.width * outer), svg_number(scene.height * outer), pixels ? "px" : "pt",
      svg_number(scene.width), svg_number(scene.height), kMiterLimit);
  out += "<title>" + xml_text(scene.title) + "</title>\n";
  if (!scene.caption.empty()) out += "<desc>" + xml_text(scene.caption) + "</desc>\n";
  out += "<metadata><settings xmlns=\"urn:kvloupe:settings\">\n";
  for (const auto& [key, value] : scene.metadata) {
    out += "<entry name=\"" + xml_text(key) + "\">" + xml_text(value) + "</entry>\n";
  }
  out += "</settings></metadata>\n";
  if (scene.background.alpha > 0) {
    out += "<rect width=\"" + svg_number(scene.width) + "\" height=\"" + svg_number(scene.height) +
           '"' + paint("fill", scene.background) + "/>\n";
  }
  SvgWriter writer(out);
  for (const Item& item : scene.items) std::visit(writer, item);
  out += "</svg>\n";
  return out;
}

}  // namespace kvloupe::figure

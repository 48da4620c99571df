#include "session/ingest.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gearbox/wire/picture.hpp"

namespace gearbox::session {

namespace {

const model::TensorDecl* find(const config::TaskConfig& task, const std::string& name) {
  const auto found = std::find_if(task.inputs.begin(), task.inputs.end(),
                                  [&](const model::TensorDecl& input) { return input.name == name; });
  return found == task.inputs.end() ? nullptr : &*found;
}

std::string names_of(const config::TaskConfig& task) {
  std::string names;
  for (const model::TensorDecl& input : task.inputs) names += (names.empty() ? "" : ", ") + input.name;
  return names;
}

/// Begins as a JPEG or PNG file does, whatever follows.
bool looks_like_picture(ByteView bytes) {
  const std::string_view head = text_of(bytes.first(std::min<std::size_t>(bytes.size(), 8)));
  return head.starts_with("\xFF\xD8\xFF") || head.starts_with("\x89PNG");
}

Error named(const wire::TensorSpec& spec, const Error& error) {
  return Error{error.code, "input '" + spec.name + "': " + error.detail};
}

}  // namespace

Outcome<Ingest> Ingest::plan(const Service& service, const config::TaskConfig& task, const wire::Submit& submit) {
  Ingest ingest;
  for (const wire::InputSpec& announced : submit.inputs) {
    const model::TensorDecl* declared = find(task, announced.tensor.name);
    if (declared == nullptr) {
      return Error{Errc::bad_input,
                   "task '" + task.name + "' has no input '" + announced.tensor.name + "'; it takes " + names_of(task)};
    }
    if (Outcome<void> fits = model::check_fits(*declared, announced.tensor); !fits) return fits.error();
    Input input;
    input.spec = announced.tensor;
    if (!announced.codecs.empty()) {
      std::vector<link::NamedCodec> codecs;
      for (const std::string& name : announced.codecs) {
        Outcome<std::shared_ptr<plugin::Codec>> codec = service.codec(name);
        if (!codec) return named(input.spec, Error{Errc::not_found, "this node has no codec '" + name + "'"});
        codecs.push_back({name, std::move(codec).value()});
      }
      Outcome<link::CodecChain> chain = link::CodecChain::create(input.spec, std::move(codecs));
      if (!chain) return named(input.spec, chain.error());
      if (!chain.value().lossless() && !task.allow_lossy) {
        return named(input.spec, Error{Errc::not_allowed, "task '" + task.name + "' allows lossless codecs only"});
      }
      input.chain.emplace(std::move(chain).value());
    }
    ingest.inputs_.push_back(std::move(input));
  }
  for (const model::TensorDecl& declared : task.inputs) {
    const bool there = std::any_of(submit.inputs.begin(), submit.inputs.end(),
                                   [&](const wire::InputSpec& input) { return input.tensor.name == declared.name; });
    if (!there) return Error{Errc::bad_input, "task '" + task.name + "' needs an input '" + declared.name + "'"};
  }
  return ingest;
}

std::uint64_t Ingest::plain_bytes() const {
  std::uint64_t sum = 0;
  for (const Input& input : inputs_) sum += input.spec.bytes;
  return sum;
}

Outcome<void> Ingest::reserve(worker_pool::WorkerPool& pool) {
  for (Input& input : inputs_) {
    Outcome<worker_pool::SlabPtr> slab = pool.allocate(input.spec.bytes);
    if (!slab) {
      for (Input& other : inputs_) other.slab.reset();
      return named(input.spec, slab.error());
    }
    input.slab = std::move(slab).value();
  }
  reserved_ = true;
  return done();
}

Outcome<void> Ingest::fill(ByteView all) {
  if (all.size() != plain_bytes()) {
    return Error{Errc::corrupt_data,
                 std::to_string(all.size()) + " bytes in place of " + std::to_string(plain_bytes())};
  }
  for (Input& input : inputs_) {
    const ByteSpan into = input.slab->bytes().first(input.spec.bytes);
    if (!into.empty()) std::memcpy(into.data(), all.data(), into.size());
    all = all.subspan(into.size());
  }
  return done();
}

void Ingest::release() {
  for (Input& input : inputs_) {
    input.slab.reset();
    input.chain.reset();  // its scratch memory is larger than all else that is remembered of a request
  }
  reserved_ = false;
}

Outcome<Ingest::Room> Ingest::place(std::size_t input, std::uint64_t offset, std::size_t bytes) {
  const Input& into = inputs_[input];
  if (offset > into.spec.bytes || bytes > into.spec.bytes - offset) {
    return named(into.spec, Error{Errc::bad_frame, "a chunk reaches beyond its end"});
  }
  return Room{into.slab->bytes().subspan(offset, bytes), into.slab};
}

Outcome<void> Ingest::decode(std::size_t input, ByteView tile) {
  Input& into = inputs_[input];
  if (into.tiles_done >= into.chain->layout().count()) {
    return named(into.spec, Error{Errc::bad_frame, "more tiles than the tensor has"});
  }
  if (Outcome<void> decoded = into.chain->decode(into.tiles_done, tile, into.slab->bytes().first(into.spec.bytes));
      !decoded) {
    return decoded.error();  // names tensor and tile
  }
  ++into.tiles_done;
  return done();
}

Outcome<void> Ingest::check_content(std::uint64_t max_pixels) const {
  for (const Input& input : inputs_) {
    if (input.chain && input.tiles_done != input.chain->layout().count()) {
      return named(input.spec,
                   Error{Errc::corrupt_data, std::to_string(input.tiles_done) + " of " +
                                                 std::to_string(input.chain->layout().count()) + " tiles arrived"});
    }
    // Bytes that look like a picture file must be one, whole and of a sane size: a model's own decoder would only find
    // out after it had filled its memory, or would guess the missing part. Other bytes are the model's business.
    const ByteView bytes = ByteView(input.slab->bytes()).first(input.spec.bytes);
    if (input.spec.dtype != wire::DType::uint8 || input.spec.shape.size() != 1 || !looks_like_picture(bytes)) continue;
    const wire::PictureLimits limits{.max_pixels = max_pixels};
    if (Outcome<wire::PictureInfo> whole = wire::check_picture_whole(bytes, limits); !whole) {
      return named(input.spec, whole.error());
    }
  }
  return done();
}

std::map<std::string, pipeline::Value> Ingest::values() const {
  std::map<std::string, pipeline::Value> values;
  for (const Input& input : inputs_) {
    worker_pool::TensorRef tensor{.spec = input.spec, .item = 0, .slab = input.slab, .offset = 0};
    pipeline::Value value;
    value.dtype = input.spec.dtype;
    value.tensors.push_back(std::move(tensor));
    values.emplace(input.spec.name, std::move(value));
  }
  return values;
}

std::vector<ByteView> Ingest::plain_views() const {
  std::vector<ByteView> views;
  for (const Input& input : inputs_) views.push_back(ByteView(input.slab->bytes()).first(input.spec.bytes));
  return views;
}

}  // namespace gearbox::session

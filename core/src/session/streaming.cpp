// Requests whose answers come in parts: to a device that takes them as they come, else put together for it.
#include <utility>

#include "session/requests.hpp"

namespace gearbox::session {

void Requests::came(const RequestPtr& request, pipeline::RunPart part) {
  const bool parts_wanted = request->stream != nullptr;
  if (!request->collected && (!parts_wanted || service_.store != nullptr)) {
    request->collected = std::make_unique<Collected>(parts_wanted ? Collected::kStoreBytes : Collected::kAnswerBytes);
  }
  const bool kept = request->collected && request->collected->add(part);
  if (!parts_wanted) {
    if (kept) return;
    return fail(request, Error{Errc::result_too_large,
                               "the answer's parts are more than " + std::to_string(Collected::kAnswerBytes >> 20) +
                                   " MiB together; a device that takes them as they come may get more"});
  }
  request->stream->add(std::move(part));
  if (!request->durable) return;  // its acceptance is told first
  if (const auto listener = request->listener.lock()) listener->streaming(request);
}

void Requests::take_parts(const RequestKey& key, const Listener* listener, std::uint32_t count) {
  const auto found = table_.find(key);
  if (found == table_.end() || !found->second->stream) return;
  const RequestPtr request = found->second;
  const auto serving = request->listener.lock();
  if (serving.get() != listener) return;
  request->stream->acknowledge(count);
  if (request->over) linger(request);
  serving->streaming(request);
}

/// The result of a request that is done: with all that came in parts, or only with their number.
void Requests::put_together(const RequestPtr& request, pipeline::RunResult& result) {
  if (request->stream) {
    request->result.parts = result.parts;
    return;
  }
  if (result.streamed.empty()) return;
  if (!request->collected) request->collected = std::make_unique<Collected>(Collected::kAnswerBytes);  // no part came
  for (pipeline::ResultTensor& tensor : request->collected->tensors(result.streamed)) {
    result.tensors.push_back(std::move(tensor));
  }
}

/// What the store gets of parts that went to the device as they came, or of those before a failure. `held` keeps the
/// bytes.
void Requests::keep_parts(const Request& request, store::Item& item, std::vector<pipeline::ResultTensor>& held) {
  if (!request.collected || (!request.stream && item.ok)) return;  // else they are part of the result
  for (pipeline::ResultTensor& tensor : request.collected->tensors({})) {
    item.outputs.push_back(tensor.spec);
    for (const worker_pool::TensorRef& piece : tensor.pieces) item.output_bytes.push_back(piece.bytes());
    held.push_back(std::move(tensor));
  }
  if (request.collected->kept() == request.collected->came()) return;
  item.error += (item.error.empty() ? "" : "; ") + std::string("kept: the first ") +
                std::to_string(request.collected->kept()) + " of " + std::to_string(request.collected->came()) +
                " parts";
}

}  // namespace gearbox::session

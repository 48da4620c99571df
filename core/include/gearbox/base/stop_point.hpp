// stop_point.hpp: named places where a test can make a process stand still, to kill it exactly there.
//
// GEARBOX_STOP_AT=NAME[:N] makes the process stop itself (SIGSTOP) when it reaches point NAME for the Nth time (default
// 1). Every point is listed here, so that a test can enumerate them and fail when one is never reached. Compiled out
// with NDEBUG release builds (GEARBOX_STOP_POINTS=0).
#pragma once

#include <array>
#include <string_view>

namespace gearbox {

struct StopPoint {
  std::string_view name;
  std::string_view role;  // the process that reaches it: central, node, worker, supervisor, client
};

inline constexpr std::array kStopPoints = {
    StopPoint{"central.located", "central"},              // placement decided, answer not yet sent
    StopPoint{"central.command.answered", "central"},     // a device's answer durable, nothing further sent
    StopPoint{"node.upload.announced", "node"},           // slab reserved, offset not yet told
    StopPoint{"node.upload.verified", "node"},            // all bytes there and whole, not yet acknowledged
    StopPoint{"node.request.written", "node"},            // durable, not yet acknowledged
    StopPoint{"node.request.accepted", "node"},           // acknowledged
    StopPoint{"node.step.dispatched", "node"},            // descriptor published to a worker
    StopPoint{"node.result.ready", "node"},               // last step done, result neither stored nor sent
    StopPoint{"node.result.written", "node"},             // result durable, not yet sent
    StopPoint{"node.result.sent", "node"},                // result written to the device
    StopPoint{"worker.loaded", "worker"},                 // model loaded, not yet attached
    StopPoint{"worker.call.taken", "worker"},             // descriptor read, Python not yet called
    StopPoint{"worker.call.done", "worker"},              // Python returned, answer not yet published
    StopPoint{"supervisor.child.forked", "supervisor"},   // not recorded, its program does not run yet
    StopPoint{"supervisor.child.started", "supervisor"},  // recorded, nobody has been told its pid
    StopPoint{"client.located", "client"},                // ticket in hand, node not yet dialled
    StopPoint{"client.command.done", "client"},           // carried out and durable, central not yet told
    StopPoint{"client.uploaded", "client"},               // all bytes sent, no answer yet
};

#if defined(GEARBOX_STOP_POINTS) && GEARBOX_STOP_POINTS
/// Stops the calling process when the environment names this point; a name outside kStopPoints ends the process.
void stop_point(std::string_view name);
#else
inline void stop_point(std::string_view) {}
#endif

}  // namespace gearbox

// exit_codes.hpp: with what a role's process ends when its supervisor is to know the reason.
#pragma once

namespace gearbox::serving {

/// Central has lost its lead and ended at once, from a thread that looks on, whatever its loop was doing: in a call of
/// a plugin, say, which is not to blame then. Starting it again helps. No other reason for an end has this number.
inline constexpr int kExitLeadLost = 94;

}  // namespace gearbox::serving

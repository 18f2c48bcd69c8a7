import Broker

/// The judge of imports: what apps were told, and how often each of their tokens was sent to the provider.
///
/// A token makes at most one call that may have arrived, and one more only after a lost answer.
final class Imports: @unchecked Sendable {
    /// One call with an app's token.
    final class Call {
        enum Fate {
            /// The broker process waits for the answer, or has died.
            case open
            /// The broker process knows that the token is unused.
            case unspent
            /// As far as the broker process knows, the token may be used.
            case lost
            case granted, refused
        }

        let process: SimulatedProcess
        let sentAt: Int
        var fate = Fate.open

        init(_ process: SimulatedProcess, at moment: Int) {
            self.process = process
            sentAt = moment
        }

        /// Whether the call's process has lived until now, and has reached the store at all times.
        private var isUndisturbed: Bool { process.isUndisturbed(since: sentAt) && process.storeHeldSince(sentAt) }

        /// Whether the call forbids another call with the same token.
        var isKnown: Bool { fate != .lost && fate != .unspent && isUndisturbed }

        /// Whether the broker may have lost the answer.
        var mayBeLost: Bool { fate != .unspent && !isKnown }

        /// Whether the call counts towards the two that may have arrived.
        ///
        /// A refusal decides only after the first granted import, and the store may fail to tell whether there is one. The
        /// broker then releases the import.
        var counts: Bool { fate != .unspent && (fate != .refused || isUndisturbed) }
    }

    private unowned let world: Simulation
    private var calls: [String: [Call]] = [:]
    /// The tokens that apps have begun to import, and the moment of the first post.
    private var begun: [String: Int] = [:]

    init(_ world: Simulation) { self.world = world }

    private var weather: Weather { world.weather }
    /// Whether clocks are wrong at times, so that a window may seem over.
    private var hasWrongClocks: Bool { weather.wallJumps + weather.wallLeaps + weather.storeJumps > 0 }
    /// Whether a process may lose a claim before its first call.
    private var losesClaims: Bool {
        Double(weather.crashes + weather.pauses + weather.outages + weather.partitions + weather.heldWrites)
            + weather.storeFails + weather.storeInDoubt > 0
    }

    func begins(_ token: String) { begun[token] = world.scheduler.now }

    /// Notes that an app has its session, or has to sign in.
    func ends(_ token: String) { begun[token] = nil }

    /// Judges a call that a process is about to send.
    func sends(_ call: Call, of token: String) {
        let spending = calls[token, default: []].filter(\.counts)
        if spending.count > 1 { world.rules.fault("the token \(token) is sent a third time") }
        if spending.contains(where: \.isKnown) {
            world.rules.fault("the token \(token) is sent again, although its call has an answer or waits for one")
        }
        world.say("process \(call.process.number) sends the app's token \(token)")
        calls[token, default: []].append(call)
    }

    /// Judges the answer that an app has to sign in.
    func refused(_ token: String, _ end: ImportEnd?) {
        world.say("the import of \(token) ends: \(end?.rawValue ?? "")")
        let isRight =
            switch end {
            case .refreshLost: losesClaims || calls[token, default: []].contains(where: \.mayBeLost)
            case .expired: hasWrongClocks
            case .grantRevoked, .notBound, .unknownSession, nil: false
            }
        if isRight { world.verdict.beyondSaving += 1 } else { wrongful("the import of \(token) was refused") }
    }

    /// Judges the answer that an app's token is used up.
    func alreadyUsed(_ token: String) {
        if !hasWrongClocks { wrongful("the app's token \(token) is called used up before its app has a session") }
    }

    func wrongful(_ text: String) {
        world.say("FAULT: \(text)")
        world.verdict.wrongfulLogOuts += 1
    }

    /// Judges the imports that are still open long after the faults.
    func judge() {
        guard !hasWrongClocks else { return }
        for token in begun.keys.sorted() { wrongful("the import of \(token) stays open") }
    }
}

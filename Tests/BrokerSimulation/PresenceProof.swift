import Broker

/// A presence proof, with the record of its uses.
final class PresenceProof: @unchecked Sendable {
    let text: String
    /// The call that the user has confirmed, and its session.
    let request: SimulatedRequest
    let session: Digest
    /// Whether the session's own presence key made the proof.
    let isByPresenceKey: Bool
    /// The end of the time in which its nonce is accepted, in milliseconds since the simulation began.
    let endsAt: Int
    /// The number of calls with the proof that may have reached the upstream.
    var reached = 0
    /// The number of times that the proof was shown.
    fileprivate var begun = 0
    /// The number of calls with the proof that a process has begun to work on.
    fileprivate var started = 0
    /// The number of calls with the proof that a process is still working on.
    fileprivate var underWay = 0
    /// Whether the proof is certainly unused.
    fileprivate var isFree = true
    /// Whether a process tried to use the proof up, and the result is unknown for good.
    fileprivate var isDoubtful = false

    /// Creates a proof; `nonceMadeAt` is the time of its nonce, in milliseconds since the simulation began.
    init(
        _ text: String, for request: SimulatedRequest, of session: Digest, isByPresenceKey: Bool, nonceMadeAt: Int
    ) {
        self.text = text
        self.request = request
        self.session = session
        self.isByPresenceKey = isByPresenceKey
        // A nonce is accepted in its own period of five minutes, and in the next period.
        let period = 300_000
        let begin = Int(SimulatedProcess.begin)
        endsAt = ((begin + nonceMadeAt) / period + 2) * period - begin
    }
}

/// One call that shows a proof of presence.
final class PresenceShow: @unchecked Sendable {
    let proof: PresenceProof
    let request: SimulatedRequest
    let session: Digest
    let process: SimulatedProcess
    let askedAt: Int
    private let number: Int
    /// The call's place among all calls with the proof, in the order of their work.
    private var place = 0
    private var wasFree = false

    init(
        _ proof: PresenceProof, for request: SimulatedRequest, of session: Digest, at process: SimulatedProcess,
        askedAt: Int
    ) {
        proof.begun += 1
        number = proof.begun
        self.proof = proof
        self.request = request
        self.session = session
        self.process = process
        self.askedAt = askedAt
    }

    /// Whether the proof was certainly unused when the call began, and no other call has shown it since.
    var isOnlyUse: Bool { wasFree && proof.started == place && proof.begun == number }
    /// Whether the call was the only one that showed the proof so far.
    var isFirst: Bool { number == 1 && proof.begun == 1 }

    /// The call in the words of the events.
    var words: String { "call \(number) with the proof \(proof.text.suffix(6)) at process \(process.number)" }

    /// Notes that the process works on the call.
    func begins() {
        wasFree = proof.isFree && proof.underWay == 0
        proof.underWay += 1
        proof.started += 1
        place = proof.started
    }

    func ends() { proof.underWay -= 1 }

    /// Notes that the process is about to use the proof up.
    func takes() { proof.isFree = false }

    /// Notes that the store or a process may have recorded the proof as used permanently.
    func isInDoubt() { proof.isDoubtful = true }

    /// Notes that the process has released the proof.
    ///
    /// If the store's answer was lost, the proof may be unused in the store, and stay used in the process.
    func isGivenBack() {
        guard process.isUndisturbed(since: askedAt), process.storeHeldSince(askedAt) else { return isInDoubt() }
        // Another call may have used the proof up meanwhile.
        let isAlone = proof.underWay == 1 && proof.started == place
        if isAlone, !proof.isDoubtful { proof.isFree = true }
    }
}

/// The used proofs in the store that several processes share, and the calls of each session.
final class Presences {
    /// The largest number of proofs that a session may use in a minute.
    static let perMinute = 30

    private var used: [Digest: WallTime] = [:]
    private var calls: [Digest: [Int]] = [:]

    /// Records that a proof was used; returns whether this was its first use.
    ///
    /// A record whose time is over at `now` counts as removed by the sweep. Pass nil while the sweep is interrupted.
    func take(_ name: Digest, until: WallTime, now: WallTime?) -> Bool {
        if let kept = used[name], now.map({ $0 < kept }) ?? true { return false }
        used[name] = until
        return true
    }

    func giveBack(_ name: Digest) { used[name] = nil }

    /// Notes that a session is about to use a proof.
    func takes(_ session: Digest, at moment: Int) {
        calls[session] = calls[session, default: []].filter { $0 > moment - 60_000 } + [moment]
    }

    /// Returns whether a session may have reached its limit of proofs.
    func mayBeLimited(_ session: Digest) -> Bool { calls[session, default: []].count >= Self.perMinute }
}

import Broker

/// A presence proof, and the record of the calls that used it.
final class PresenceProof: @unchecked Sendable {
    let text: String
    /// The call that the user has confirmed, and the session of this call.
    let request: SimulatedRequest
    let session: Digest
    /// Whether the session's own presence key made the proof.
    let isByPresenceKey: Bool
    /// The moment until which the proof's nonce is accepted, in milliseconds since the simulation began.
    let endsAt: Int
    /// The number of calls with this proof that may have reached the upstream.
    var reached = 0
    /// The number of calls that were made with this proof.
    fileprivate var begun = 0
    /// The number of calls with this proof that a process has begun to handle.
    fileprivate var started = 0
    /// The number of calls with this proof that a process is still handling.
    fileprivate var underWay = 0
    /// Whether the proof is certainly unused.
    fileprivate var isFree = true
    /// Whether a process tried to use up the proof, and it will never be known whether this succeeded.
    fileprivate var isDoubtful = false

    /// Creates a proof.
    ///
    /// `nonceMadeAt` is the moment when its nonce was issued, in milliseconds since the simulation began.
    init(
        _ text: String, for request: SimulatedRequest, of session: Digest, isByPresenceKey: Bool, nonceMadeAt: Int
    ) {
        self.text = text
        self.request = request
        self.session = session
        self.isByPresenceKey = isByPresenceKey
        // The broker accepts a nonce in the period of five minutes of its issue, and in the next period.
        let period = 300_000
        let begin = Int(SimulatedProcess.begin)
        endsAt = ((begin + nonceMadeAt) / period + 2) * period - begin
    }
}

/// One call with a presence proof.
final class PresenceShow: @unchecked Sendable {
    let proof: PresenceProof
    let request: SimulatedRequest
    let session: Digest
    let process: SimulatedProcess
    let askedAt: Int
    private let number: Int
    /// The position of this call among the calls with the same proof, in the order in which processes began to handle them.
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

    /// Whether the proof was certainly unused when the call began, and no other call has used the proof since.
    var isOnlyUse: Bool { wasFree && proof.started == place && proof.begun == number }
    /// Whether no other call was made with the proof so far.
    var isFirst: Bool { number == 1 && proof.begun == 1 }

    /// The text for this call in the printed events.
    var words: String { "call \(number) with the proof \(proof.text.suffix(6)) at process \(process.number)" }

    /// Notes that the process begins to handle the call.
    func begins() {
        wasFree = proof.isFree && proof.underWay == 0
        proof.underWay += 1
        proof.started += 1
        place = proof.started
    }

    func ends() { proof.underWay -= 1 }

    /// Notes that the process is about to use the proof up.
    func takes() { proof.isFree = false }

    /// Notes that the store or a process may have recorded the proof as used for good.
    func isInDoubt() { proof.isDoubtful = true }

    /// Notes that the process has made the proof usable again.
    ///
    /// If the store's answer was lost, the proof may be unused in the store, but used in the process's memory.
    func isGivenBack() {
        guard process.isUndisturbed(since: askedAt), process.storeHeldSince(askedAt) else { return isInDoubt() }
        // Another call with the proof may have used it up meanwhile.
        let isAlone = proof.underWay == 1 && proof.started == place
        if isAlone, !proof.isDoubtful { proof.isFree = true }
    }
}

/// The used presence proofs in the store that all processes share, and the number of proofs that each session has used.
final class Presences {
    /// The largest number of presence proofs that a session may use in a minute.
    static let perMinute = 30

    private var used: [Digest: WallTime] = [:]
    private var calls: [Digest: [Int]] = [:]

    /// Records that a proof was used; returns whether this was its first use.
    ///
    /// `now` decides which records the sweep has already removed. Pass nil while the sweep rests.
    func take(_ name: Digest, until: WallTime, now: WallTime?) -> Bool {
        if let kept = used[name], now.map({ $0 < kept }) ?? true { return false }
        used[name] = until
        return true
    }

    func giveBack(_ name: Digest) { used[name] = nil }

    /// Notes that a session is about to use a presence proof.
    func takes(_ session: Digest, at moment: Int) {
        calls[session] = calls[session, default: []].filter { $0 > moment - 60_000 } + [moment]
    }

    /// Returns whether a session may have used as many proofs as it may use in a minute.
    func mayBeLimited(_ session: Digest) -> Bool { calls[session, default: []].count >= Self.perMinute }
}

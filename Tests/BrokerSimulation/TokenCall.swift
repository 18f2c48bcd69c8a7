import Broker

/// One token call, from its sending to the writing of what came of it.
final class TokenCall {
    enum State {
        case sent
        /// Nothing came of it, and the process was told.
        case failed
        /// The process was handed this refresh token.
        case delivered(Int)
        /// The tokens that were handed out are in the store.
        case written
    }

    let process: SimulatedProcess
    let code: String?
    var family: Family? {
        didSet { if let struck { note(struck) } }
    }
    /// The mishap of its process before the provider had done anything.
    var struck: Family.Mishap? {
        didSet { if let struck { note(struck) } }
    }
    let sentAt: Int
    var state = State.sent
    /// The code's call was answered 429 or 5xx, so it may be made again.
    var mayBeRepeated = false
    /// The refresh token that is sent.
    var token = 0
    /// The verifier that a code is sent with.
    var verifier: Secret?
    /// The nonce of its proof, and the one that its answer brings.
    var nonce: String?
    var given: String?
    /// Whether it was refused for its nonce.
    var isChallenged = false
    /// Whether it repeats one that was.
    var isRepeat = false
    /// The API that it is for; nil for the session's own.
    var target: TokenTarget?
    /// The refresh token that the session had whose step-up the code is for, when it was sent.
    var tokenOfSession: Int?
    /// Whether it uses no refresh token up.
    var isExchange = false
    /// Whether it is the retry that tells what became of a lost one.
    var isConfirming = false

    init(process: SimulatedProcess, code: String?, family: Family?, sentAt: Int) {
        self.process = process
        self.code = code
        self.family = family
        self.sentAt = sentAt
    }

    /// Notes with its grant what befell it.
    func note(_ mishap: Family.Mishap) {
        family?.mishaps.append(mishap)
        if target != nil { family?.hasLostTarget = true }
    }

    /// Whether its process has the answer.
    var isDelivered: Bool {
        switch state {
        case .delivered, .written: true
        case .sent, .failed: false
        }
    }

    /// Whether something of it is still to be written.
    var isOpen: Bool {
        switch state {
        case .sent, .delivered: true
        case .failed, .written: false
        }
    }
}

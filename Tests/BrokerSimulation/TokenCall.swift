import Broker

/// One token call, from its sending until its result is written.
final class TokenCall {
    enum State {
        case sent
        /// The call has failed, and the process knows this.
        case failed
        /// The process received the refresh token with this number.
        case delivered(Int)
        /// The delivered tokens are in the store.
        case written
    }

    let process: SimulatedProcess
    let code: String?
    var family: Family? {
        didSet { if let struck { note(struck) } }
    }
    /// The mishap of the call's process before the provider had done anything.
    var struck: Family.Mishap? {
        didSet { if let struck { note(struck) } }
    }
    let sentAt: Int
    var state = State.sent
    /// Whether the code may be sent again, because the provider did not perform this call.
    var mayBeRepeated = false
    /// The number of the refresh token that is sent.
    var token = 0
    /// The verifier that is sent with a code.
    var verifier: Secret?
    /// The nonce of the call's proof, and the nonce that its answer brings.
    var nonce: String?
    var given: String?
    /// Whether the call was refused for its nonce.
    var isChallenged = false
    /// Whether the call repeats a call that was refused for its nonce.
    var isRepeat = false
    /// The API that the call is for; nil for the session's own token.
    var target: TokenTarget?
    /// The number of the session's refresh token when the code for its step-up was sent.
    var tokenOfSession: Int?
    /// Whether the call is a token exchange, which spends no refresh token.
    var isExchange = false
    /// Whether the call is the one retry after a lost answer.
    var isConfirming = false

    init(process: SimulatedProcess, code: String?, family: Family?, sentAt: Int) {
        self.process = process
        self.code = code
        self.family = family
        self.sentAt = sentAt
    }

    /// Notes a mishap of the call with its grant.
    func note(_ mishap: Family.Mishap) {
        family?.mishaps.append(mishap)
        if target != nil { family?.hasLostTarget = true }
    }

    /// Whether the call's process has the answer.
    var isDelivered: Bool {
        switch state {
        case .delivered, .written: true
        case .sent, .failed: false
        }
    }

    /// Whether a result of the call may still have to be written.
    var isOpen: Bool {
        switch state {
        case .sent, .delivered: true
        case .failed, .written: false
        }
    }
}

import Broker

/// One call to the provider's token endpoint, until its result is written to the store.
final class TokenCall {
    enum State {
        case sent
        /// The call has failed, and the broker process has received the failure.
        case failed
        /// The broker process has received the answer; the value is the number of its refresh token.
        case delivered(Int)
        /// The tokens of the answer are in the store.
        case written
    }

    let process: SimulatedProcess
    let code: String?
    var family: Family? {
        didSet { if let struck { note(struck) } }
    }
    /// The mishap that hit the broker process before the provider carried out this call; nil if there was none.
    var struck: Family.Mishap? {
        didSet { if let struck { note(struck) } }
    }
    let sentAt: Int
    var state = State.sent
    /// Whether the same code may be sent again, because the provider has not carried out this call.
    var mayBeRepeated = false
    /// The number of the refresh token that this call sends.
    var token = 0
    /// The PKCE verifier that this call sends with a code.
    var verifier: Secret?
    /// The nonce in the call's proof, and (`given`) the nonce in the provider's answer.
    var nonce: String?
    var given: String?
    /// Whether the provider refused the call because of its nonce.
    var isChallenged = false
    /// Whether the call repeats an earlier call that the provider refused because of its nonce.
    var isRepeat = false
    /// The API that the token is for; nil for the session's own API.
    var target: TokenTarget?
    /// For the code of a step-up: the number of the session's refresh token when the code was sent.
    var tokenOfSession: Int?
    /// Whether the call is a token exchange, which spends no refresh token.
    var isExchange = false
    /// Whether this call is the retry after a lost answer.
    ///
    /// A process makes only one such retry.
    var isConfirming = false

    init(process: SimulatedProcess, code: String?, family: Family?, sentAt: Int) {
        self.process = process
        self.code = code
        self.family = family
        self.sentAt = sentAt
    }

    /// Notes in the call's grant that a mishap hit the call.
    func note(_ mishap: Family.Mishap) {
        family?.mishaps.append(mishap)
        if target != nil { family?.hasLostTarget = true }
    }

    /// Whether the broker process has received the provider's tokens.
    var isDelivered: Bool {
        switch state {
        case .delivered, .written: true
        case .sent, .failed: false
        }
    }

    /// Whether the provider's answer to this call may still have to be written to the store.
    var isOpen: Bool {
        switch state {
        case .sent, .delivered: true
        case .failed, .written: false
        }
    }
}

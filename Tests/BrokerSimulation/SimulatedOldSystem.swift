import Broker

/// A session at the old system, which keeps the five promises of an old server (docs/operate/moving-in.md).
///
/// The old system leaves the session's grant alone, and always gives the same answer, until the user logs out.
final class OldSession: @unchecked Sendable {
    let token: String
    let person: Int
    /// The provider's refresh token; nil if the old system lacks one.
    let refreshToken: String?
    /// Whether the old system names another user than the provider.
    let namesAnother: Bool
    private(set) var isLoggedOut = false
    /// Whether the old system has ever answered a question with the session.
    private(set) var isHandedOut = false
    /// The name of the questions about the session; nil before the first.
    var questionName: String?
    var questions: [Question] = []
    /// The last question before the app was first given the session that this session became.
    var questionOfMove: Question?

    init(_ token: String, person: Int, refreshToken: String?, namesAnother: Bool) {
        self.token = token
        self.person = person
        self.refreshToken = refreshToken
        self.namesAnother = namesAnother
    }

    func logOut() { isLoggedOut = true }

    /// Whether the user had logged out before the old system handed the session out.
    var wasNeverHandedOut: Bool { isLoggedOut && !isHandedOut }

    /// Decides about a question that has reached the old system.
    func answer() -> LegacyAnswer {
        guard !isLoggedOut else { return .refused }
        isHandedOut = true
        let begin = WallTime(milliseconds: SimulatedProcess.begin)
        return .session(
            LegacySession(
                subject: namesAnother ? "stranger" : "user-\(person)", refreshToken: refreshToken.map { Secret($0) },
                createdAt: begin.advanced(by: .seconds(-86_400)), expiresAt: begin.advanced(by: .seconds(86_400)),
                device: "old phone"))
    }
}

/// One question to the old system.
final class Question {
    enum Fate {
        /// The broker process waits for the answer, or has died.
        case open
        /// As far as the broker process knows, the decision is missing.
        case undecided
        case refused, found
    }

    let process: SimulatedProcess
    let sentAt: Int
    var fate = Fate.open

    init(_ process: SimulatedProcess, at moment: Int) {
        self.process = process
        sentAt = moment
    }

    /// Whether the asking process has lived until now, and has reached the store at all times.
    var isUndisturbed: Bool { process.isUndisturbed(since: sentAt) && process.storeHeldSince(sentAt) }
}

/// Questions to the old system.
extension SimulatedProvider: LegacyClaiming {
    /// The longest time of a question, in milliseconds.
    private static let longestQuestion = 10_000

    func claim(_ claim: LegacyClaim, by deadline: Duration) async throws(ProviderFailure) -> LegacyAnswer {
        typealias Answer = Result<LegacyAnswer, ProviderFailure>
        guard let session = world.moves.session(claim.token.reveal()) else {
            throw .retryable(status: 500, retryAfter: nil, detail: "an unknown session")
        }
        let moving = weather.moving
        func strikes(_ chance: Double) -> Bool { world.isFoul && scheduler.random.chance(chance) }
        let rest = min(rest(until: deadline), Self.longestQuestion)
        guard !process.isDead, rest > 0, !strikes(moving.notSent) else { throw .notSent(detail: "away") }
        let question = Question(process, at: scheduler.now)
        world.moves.asks(question, claim.id, about: session)
        let process = process
        let answer = process.promise(Answer.failure(.lost(detail: "the process died")))
        /// Gives the old system's answer to the process, unless the process is dead or has stopped waiting.
        func tell(_ said: Answer) {
            guard answer.value == nil, !process.isDead else { return }
            switch said {
            case .success(.refused): question.fate = .refused
            case .success(.session): question.fate = .found
            case .failure: question.fate = .undecided
            }
            answer.resolve(said)
        }
        let duration = duration()
        if strikes(moving.undecided) {
            let status = scheduler.random.pick([500, 503, 404, 401, 302])
            scheduler.after(duration) {
                tell(.failure(.retryable(status: status, retryAfter: nil, detail: "\(status)")))
            }
        } else {
            let (loses, hangs) = (strikes(moving.lost), strikes(moving.hangs))
            let way = scheduler.random.number(0...duration)
            scheduler.after(way) { [scheduler] in
                let said = session.answer()
                guard !hangs else { return }
                scheduler.after(duration - way) {
                    tell(loses ? .failure(.lost(detail: "broken off")) : .success(said))
                }
            }
        }
        scheduler.after(rest) {
            process.whenAwake { tell(.failure(.lost(detail: "the answer is late"))) }
        }
        return try await answer.wait().get()
    }
}

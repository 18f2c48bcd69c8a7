import Broker

/// The judge of the questions to the old system.
///
/// A question about a session is repeated only under the same name, and one at a time. Once a session is settled, the questions
/// end.
final class Moves: @unchecked Sendable {
    /// The lifetime of the old system's refusal in the store, in milliseconds.
    private static let refusalMemory = 600_000

    private unowned let world: Simulation
    private var sessions: [String: OldSession] = [:]
    /// The session that each name of a question belongs to.
    private var names: [String: OldSession] = [:]

    init(_ world: Simulation) { self.world = world }

    /// Begins a session at the old system with a grant of its own, or with the refresh token of another session.
    func begin(_ grant: String, lacksToken: Bool = false, namesAnother: Bool = false) -> OldSession {
        let person = world.authority.named(grant)?.family.person ?? -1
        let session = OldSession(
            "old-\(sessions.count)", person: person, refreshToken: lacksToken ? nil : grant, namesAnother: namesAnother)
        sessions[session.token] = session
        return session
    }

    func session(_ token: String) -> OldSession? { sessions[token] }

    /// Judges a question that a process is about to send.
    func asks(_ question: Question, _ name: String, about session: OldSession) {
        world.say("process \(question.process.number) asks the old system about \(session.token)")
        if names[name] == nil, session.questionName == nil { (names[name], session.questionName) = (session, name) }
        if session.questionName != name || names[name] !== session {
            world.rules.fault("the question about \(session.token) has another name than before, or another session's")
        }
        for earlier in session.questions where earlier.isUndisturbed {
            switch earlier.fate {
            case .open: world.rules.fault("two processes ask the old system about \(session.token)")
            case .refused where !isOver(earlier):
                world.rules.fault("the old system has refused \(session.token), and is asked again")
            case .undecided, .found, .refused: break
            }
        }
        if let question = session.questionOfMove, question.isUndisturbed {
            world.rules.fault("the old system is asked about \(session.token), which was moved")
        }
        session.questions.append(question)
    }

    /// Notes that an app was given the session that its old session became.
    func moved(_ session: OldSession) {
        if session.questionOfMove == nil { session.questionOfMove = session.questions.last }
    }

    /// Whether the store may have forgotten the refusal of a question.
    private func isOver(_ question: Question) -> Bool {
        world.weather.clocksStep || world.scheduler.now - question.sentAt >= Self.refusalMemory
    }
}

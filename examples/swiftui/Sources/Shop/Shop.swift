import Coatcheck
import Foundation
import Observation

/// The model of the app.
@MainActor @Observable
final class Shop {
    enum Screen: Equatable {
        case starting
        case signedOut
        case signedIn(user: String)
    }

    private(set) var screen = Screen.starting
    private(set) var orders = ""
    /// A sentence for the user about the last failure.
    private(set) var message = ""
    /// The reason why the session ended, unless the user signed out here.
    ///
    /// The app chooses its sentence for the user by this reason (docs/problems.md, `session_ended`).
    private(set) var ended: String?
    private let coatcheck: Coatcheck

    init(_ coatcheck: Coatcheck) { self.coatcheck = coatcheck }

    /// Shows the first screen, within two seconds.
    func start() async {
        switch await coatcheck.standing() {
        case .signedIn(let session): show(session)
        case .signedOut(let reason): leave(reason)
        // The network is missing, and the user stays signed in.
        case .unknown(let last): if let last { show(last) } else { screen = .signedOut }
        }
    }

    func signIn() async {
        await attempt {
            if let session = try await coatcheck.signIn(with: "oidc").session { show(session) }
        }
    }

    /// Calls the API behind the broker, which adds the provider's access token.
    ///
    /// The sandbox's API returns an echo of what the upstream received, so the answer shows this token.
    func loadOrders() async {
        await attempt {
            let answer = try await coatcheck.relay("api", "private/orders")
            orders = "\(answer.status): \(String(decoding: answer.body, as: UTF8.self))"
        }
    }

    func signOut() async {
        await attempt { try await coatcheck.signOut() }
        leave()
    }

    /// Follows the session while the app is in the foreground.
    ///
    /// A sign-out on another device ends it here, too.
    func follow() async {
        await attempt {
            for try await event in coatcheck.events() {
                if case .ended(let reason) = event { leave(reason) }
            }
        }
    }

    /// Shows the user's name, which the provider returns for the scope `profile`.
    private func show(_ session: Session) {
        ended = nil
        screen = .signedIn(user: session.identity["name"]?.text ?? session.subject)
    }

    private func leave(_ reason: String? = nil) {
        screen = .signedOut
        orders = ""
        ended = reason == "logged_out" ? nil : reason
    }

    private func attempt(_ work: () async throws -> Void) async {
        message = ""
        do {
            try await work()
        } catch CoatcheckError.cancelled {
            // The user closed the sign-in page.
        } catch let problem as Problem where problem.endsSession {
            leave(problem.reason)
        } catch is CancellationError {
            // The view is gone.
        } catch {
            // Every other failure leaves the user signed in. The details are for the developer.
            message = error.localizedDescription
            if let problem = error as? Problem {
                print(problem.detail, problem.errors?.map { "\($0.pointer): \($0.code)" } ?? [])
            }
        }
    }
}

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
    private let coatcheck: Coatcheck

    init(_ coatcheck: Coatcheck) { self.coatcheck = coatcheck }

    /// Shows the first screen, within two seconds.
    func start() async {
        switch await coatcheck.standing() {
        case .signedIn(let session): show(session)
        case .signedOut: screen = .signedOut
        // The network is missing, and the user stays signed in.
        case .unknown(let last): if let last { show(last) } else { screen = .signedOut }
        }
    }

    func signIn() async {
        await attempt {
            if let session = try await coatcheck.signIn(with: "oidc").session { show(session) }
        }
    }

    /// Calls the API behind the broker.
    ///
    /// The broker adds the provider's access token, and keeps it.
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
                if case .ended = event { leave() }
            }
        }
    }

    private func show(_ session: Session) {
        screen = .signedIn(user: session.identity["name"]?.text ?? session.subject)
    }

    private func leave() {
        screen = .signedOut
        orders = ""
    }

    private func attempt(_ work: () async throws -> Void) async {
        message = ""
        do {
            try await work()
        } catch CoatcheckError.cancelled {
            // The user closed the sign-in page.
        } catch let problem as Problem where problem.endsSession {
            leave()
        } catch is CancellationError {
            // The view is gone.
        } catch {
            // Every other failure leaves the user signed in.
            message = error.localizedDescription
        }
    }
}

import Foundation

@testable import Coatcheck

/// A browser that records the pages that it opened.
///
/// A test chooses when its user signed in, and whether the user leaves the page open or closes it.
final class StepUpBrowser: SignInBrowser, @unchecked Sendable {
    private let lock = NSLock()
    private var state: (user: String, age: Int?, holds: Bool, closes: Bool, pages: [String], closings: Int)

    init(user: String, age: Int? = nil) { state = (user, age, false, false, [], 0) }

    var user: String {
        get { lock.withLock { state.user } }
        set { lock.withLock { state.user = newValue } }
    }
    /// The seconds since the user signed in at the provider.
    var age: Int? {
        get { lock.withLock { state.age } }
        set { lock.withLock { state.age = newValue } }
    }
    var holds: Bool {
        get { lock.withLock { state.holds } }
        set { lock.withLock { state.holds = newValue } }
    }
    var closes: Bool {
        get { lock.withLock { state.closes } }
        set { lock.withLock { state.closes = newValue } }
    }
    var pages: [String] { lock.withLock { state.pages } }
    /// The number of pages that a cancelled caller closed.
    var closings: Int { lock.withLock { state.closings } }

    /// Waits until the browser has opened its n-th page.
    func opened(_ number: Int) async {
        while pages.count < number { try? await Task.sleep(for: .milliseconds(10)) }
    }

    func open(_ page: URL) async throws -> URL {
        lock.withLock { state.pages.append(page.absoluteString) }
        if closes { throw CoatcheckError.cancelled }
        while holds {
            do { try await Task.sleep(for: .milliseconds(10)) } catch {
                lock.withLock { state.closings += 1 }
                throw error
            }
        }
        let text = page.absoluteString + (age.map { "&sandbox_auth_age=\($0)" } ?? "")
        return try await ScriptedBrowser(user: user).open(try Stack.url(text))
    }
}

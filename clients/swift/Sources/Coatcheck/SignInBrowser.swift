import Foundation

/// A browser that shows a sign-in page to the user: never a web view of the app's own.
public protocol SignInBrowser: Sendable {
    /// Opens a page and returns the whole URL with which it came back to the app; throws ``CoatcheckError/cancelled``
    /// when the user closes it.
    func open(_ page: URL) async throws -> URL
}

import Foundation

/// A browser that shows a sign-in page to the user.
///
/// A system browser is required, and never the app's own web view.
public protocol SignInBrowser: Sendable {
    /// Opens a page and returns the whole URL of the callback to the app.
    ///
    /// Throws ``CoatcheckError/cancelled`` if the user closes the page.
    func open(_ page: URL) async throws -> URL
}

import Coatcheck
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A browser for tests.
///
/// The sandbox's page signs Ana in at once if its URL has her name.
final class SandboxBrowser: NSObject, SignInBrowser, URLSessionTaskDelegate {
    func open(_ page: URL) async throws -> URL {
        let session = URLSession(configuration: .ephemeral, delegate: self, delegateQueue: nil)
        defer { session.invalidateAndCancel() }
        let (_, answer) = try await session.data(
            from: page.appending(queryItems: [URLQueryItem(name: "sandbox_user", value: "ana")]))
        let location = (answer as? HTTPURLResponse)?.value(forHTTPHeaderField: "Location")
        guard let callback = location.flatMap({ URL(string: $0) }) else { throw CoatcheckError.cancelled }
        return callback
    }

    /// Stops at the redirect, because it leads back to the app.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }
}

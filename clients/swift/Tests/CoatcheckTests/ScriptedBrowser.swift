import Foundation

@testable import Coatcheck

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A browser whose user signs in at the sandbox without a form.
///
/// The browser follows redirects until a redirect leads to an app or to another machine.
struct ScriptedBrowser: SignInBrowser {
    let user: String

    func open(_ page: URL) async throws -> URL {
        let text = page.absoluteString
        var next = try Stack.url("\(text)\(text.contains("?") ? "&" : "?")sandbox_user=\(user)")
        let wire = Wire()
        defer { wire.close() }
        for _ in 0..<6 {
            let answer = try await wire.send(URLRequest(url: next))
            guard let location = answer.fields["location"] else {
                throw Stack.Failure(text: "\(next): \(answer.status)")
            }
            next = try Stack.url(location)
            if next.host != "127.0.0.1" { return next }
        }
        throw Stack.Failure(text: "too many redirects")
    }
}

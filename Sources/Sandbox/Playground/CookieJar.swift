import Synchronization

/// The cookies of one client for one host.
///
/// Paths and domains are ignored, because each jar is for one host whose cookies all have the path `/`.
final class CookieJar: Sendable {
    private let cookies = Mutex<[(name: String, value: String)]>([])

    /// The `Cookie` field to send; nil while the jar is empty.
    var field: String? {
        let all = cookies.withLock { $0 }
        return all.isEmpty ? nil : all.map { $0.name + "=" + $0.value }.joined(separator: "; ")
    }

    /// The value of the cookie with this name; nil if there is none.
    subscript(name: String) -> String? { cookies.withLock { $0.first { $0.name == name }?.value } }

    /// The broker's session cookie.
    var session: (name: String, value: String)? {
        cookies.withLock { $0.first { ["coatcheck", "__Host-coatcheck"].contains($0.name) } }
    }

    /// Applies a `Set-Cookie` field, which sets, replaces or, with `Max-Age=0`, removes a cookie.
    func take(_ field: String) {
        let parts = field.split(separator: ";", omittingEmptySubsequences: false)
            .map { String($0).trimmingSpaces }
        let pair = (parts.first ?? "").split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard pair.count == 2, let name = pair.first.map(String.init), !name.isEmpty else { return }
        let value = String(pair[1])
        let ended = parts.dropFirst().contains { attribute in
            let halves = attribute.split(separator: "=", maxSplits: 1)
            return halves.count == 2 && halves[0].lowercased() == "max-age" && (Int(halves[1]) ?? 1) <= 0
        }
        cookies.withLock { cookies in
            cookies.removeAll { $0.name == name }
            if !ended { cookies.append((name, value)) }
        }
    }

    /// Another jar with the same cookies.
    var copy: CookieJar {
        let copy = CookieJar()
        for (name, value) in cookies.withLock({ $0 }) { copy.take(name + "=" + value) }
        return copy
    }

    /// Removes all cookies.
    func clear() { cookies.withLock { $0.removeAll() } }
}

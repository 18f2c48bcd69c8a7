import Broker
import BrokerWire
package import HTTPTypes

/// Finds routes by exact path.
///
/// Hummingbird's router drops empty path segments, answers a wrong method with 404, and cannot list the methods of a path
/// (library note 1). A table of whole paths avoids these problems and costs one look-up.
struct RouteTable: Sendable {
    /// A path with its methods and their routes.
    struct Entry: Sendable {
        let template: String
        fileprivate(set) var routes: [Route] { didSet { methods = Self.methods(routes) } }
        /// The methods, for `Allow`.
        private(set) var methods: String

        fileprivate init(template: String, routes: [Route]) {
            self.template = template
            self.routes = routes
            methods = Self.methods(routes)
        }

        /// Returns the route of a method; a HEAD uses the route of GET.
        func route(_ method: HTTPRequest.Method) -> Route? {
            let wanted = method == .head ? .get : method
            return routes.first { $0.method == wanted || $0.takesAnyMethod }
        }

        private static func methods(_ routes: [Route]) -> String {
            // The relay takes any method, so this list names the usual ones. The configuration decides the methods of each
            // upstream.
            if routes.contains(where: \.takesAnyMethod) { return "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" }
            var names = routes.map(\.method.rawValue)
            if names.contains("GET") { names.append("HEAD") }
            return names.joined(separator: ", ")
        }
    }

    /// A template with parameters, as bytes, because paths are compared by bytes.
    private struct Pattern: Sendable {
        /// The template's segments; nil for a parameter.
        private let segments: [[UInt8]?]
        /// The bytes before the first parameter.
        private let prefix: [UInt8]
        /// Whether the last parameter matches the rest of the path, slashes included.
        private let takesRest: Bool
        var entry: Entry

        init(_ route: Route) {
            segments = route.template.utf8.dropFirst().split(separator: UInt8(ascii: "/")).map { segment in
                segment.first == UInt8(ascii: "{") ? nil : Array(segment)
            }
            prefix = Array(route.template.utf8.prefix { $0 != UInt8(ascii: "{") })
            takesRest = route.traits.contains(.relay)
            entry = Entry(template: route.template, routes: [route])
        }

        /// Returns the ranges of the parameters in a path; nil if the path is a different one.
        func match(_ path: [UInt8]) -> [Range<Int>]? {
            guard path.starts(with: prefix) else { return nil }
            var parameters: [Range<Int>] = []
            var start = 1
            for (index, segment) in segments.enumerated() {
                guard start <= path.count else { return nil }
                let isRest = takesRest && index == segments.count - 1
                let end = isRest ? path.count : path[start...].firstIndex(of: UInt8(ascii: "/")) ?? path.count
                if let segment {
                    guard path[start..<end].elementsEqual(segment) else { return nil }
                } else {
                    guard start < end || takesRest else { return nil }
                    parameters.append(start..<end)
                }
                start = end + 1
            }
            return start == path.count + 1 ? parameters : nil
        }
    }

    private var exact: [Substring: Entry] = [:]
    private var patterns: [Pattern] = []
    /// The entry for the paths of app links, and their patterns.
    private var appLinks: (entry: Entry, paths: [String])?

    init(_ routes: [Route], appLinkPaths: [String] = []) {
        for route in routes {
            if route.traits.contains(.appLinks) {
                appLinks = (Entry(template: route.template, routes: [route]), appLinkPaths)
                continue
            }
            if !route.template.contains("{") {
                exact[route.template[...], default: Entry(template: route.template, routes: [])].routes.append(route)
                continue
            }
            if let index = patterns.firstIndex(where: { $0.entry.template == route.template }) {
                patterns[index].entry.routes.append(route)
                continue
            }
            patterns.append(Pattern(route))
        }
    }

    /// Returns the path's entry and the parts that match its template's braces; nil for an unknown path.
    func find(_ path: Substring) -> (entry: Entry, parameters: [Substring])? {
        if let entry = exact[path] { return (entry, []) }
        let bytes = Array(path.utf8)
        for pattern in patterns {
            guard let parameters = pattern.match(bytes) else { continue }
            return (pattern.entry, parameters.map { Self.part($0, of: path) })
        }
        guard let appLinks, appLinks.paths.contains(where: { PathPattern.covers($0, path) }) else { return nil }
        return (appLinks.entry, [])
    }

    private static func part(_ range: Range<Int>, of path: Substring) -> Substring {
        let start = path.utf8.index(path.startIndex, offsetBy: range.lowerBound)
        return path[start..<path.utf8.index(start, offsetBy: range.count)]
    }
}

/// One row of a route table: a method, a path, its traits and its handler.
package struct Route: Sendable {
    /// The properties of a route that the responder has to handle specially.
    struct Traits: OptionSet, Sendable {
        let rawValue: Int
        /// The route takes any method, and its body as a stream (the relay).
        static let relay = Traits(rawValue: 1)
        /// The cross-origin rule applies to safe methods too.
        static let sameOriginAlways = Traits(rawValue: 2)
        /// The cross-origin rule does not apply, because the route is protected in another way.
        static let anyOrigin = Traits(rawValue: 4)
        /// The route's errors have OAuth's form.
        static let oauthErrors = Traits(rawValue: 8)
        /// The route's body may have a mebibyte, even if `limits.body` is smaller.
        static let largeBody = Traits(rawValue: 16)
        /// The route's body is JSON.
        static let json = Traits(rawValue: 32)
        /// The route's body is a form.
        static let form = Traits(rawValue: 64)
        /// The route serves every path that matches an app link pattern, unless the path has its own route.
        static let appLinks = Traits(rawValue: 128)
        /// The route's refusals are pages, unless the request accepts problem documents.
        static let page = Traits(rawValue: 256)
    }

    typealias Handler = @Sendable (Call) async throws(BrokerProblem) -> Answer
    /// Throws if the request is to be refused before its body is read; returns the session that the body belongs to, if there
    /// is one.
    typealias Check = @Sendable (Call) async throws(BrokerProblem) -> HeldBodies.Owner?

    /// The method; for the relay, GET represents any method.
    package let method: HTTPRequest.Method
    /// The method's name, for metrics.
    package var methodName: String { method.rawValue }
    /// The path with its parameters in braces, as in the contract.
    package let template: String
    /// Whether the route takes any method.
    package var takesAnyMethod: Bool { traits.contains(.relay) }
    let traits: Traits
    /// Whether the route leaves bodies unread, because its methods are GET and HEAD.
    var readsNoBody: Bool { method == .get && !takesAnyMethod }
    /// The check that is made before the broker asks the client for the body.
    ///
    /// The handler makes the same check again, because this one is skipped for a request that has no body.
    ///
    /// Nil for GET and HEAD, whose bodies are not read.
    let proof: Check?
    let handler: Handler

    init(
        _ method: HTTPRequest.Method, _ template: String, _ traits: Traits = [], proof: Check? = nil,
        handler: @escaping Handler
    ) {
        self.method = method
        self.template = template
        self.traits = traits
        self.proof = proof
        self.handler = handler
    }
}

/// The patterns of `app_links.ios.paths`, with Apple's rules: `*` matches any characters, `?` matches one.
package enum PathPattern {
    /// Returns whether a pattern matches a path.
    package static func covers(_ pattern: String, _ path: some StringProtocol) -> Bool {
        matches(Array(pattern.utf8)[...], Array(path.utf8)[...])
    }

    /// Returns whether a pattern matches; the time is at most the product of both lengths, because only the last of several
    /// stars is retried.
    private static func matches(_ pattern: ArraySlice<UInt8>, _ text: ArraySlice<UInt8>) -> Bool {
        var (p, t) = (pattern.startIndex, text.startIndex)
        var retry: (pattern: Int, text: Int)?
        while t < text.endIndex {
            if p < pattern.endIndex, pattern[p] == UInt8(ascii: "*") {
                retry = (p + 1, t)
                p += 1
            } else if p < pattern.endIndex, pattern[p] == UInt8(ascii: "?") || pattern[p] == text[t] {
                p += 1
                t += 1
            } else if let last = retry {
                retry = (last.pattern, last.text + 1)
                p = last.pattern
                t = last.text + 1
            } else {
                return false
            }
        }
        return pattern[p...].allSatisfy { $0 == UInt8(ascii: "*") }
    }
}

import HTTPTypes

/// Finds routes by exact path.
///
/// Hummingbird's router drops empty path segments, answers a wrong method with 404 and cannot say which methods a path
/// has (library note 1); a table of whole paths has none of these surprises, and costs one lookup.
struct RouteTable: Sendable {
    /// A path with its methods.
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

        /// Returns the route of a method; HEAD is GET's.
        func route(_ method: HTTPRequest.Method) -> Route? {
            let wanted = method == .head ? .get : method
            return routes.first { $0.method == wanted || $0.takesAnyMethod }
        }

        private static func methods(_ routes: [Route]) -> String {
            // The relay's own list: what an upstream takes is the configuration's to say.
            if routes.contains(where: \.takesAnyMethod) { return "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" }
            var names = routes.map(\.method.rawValue)
            if names.contains("GET") { names.append("HEAD") }
            return names.joined(separator: ", ")
        }
    }

    private struct Pattern: Sendable {
        /// The template's segments; nil where a parameter stands.
        let segments: [Substring?]
        /// What stands before the first parameter.
        let prefix: String
        /// Whether the last parameter takes the rest of the path, slashes and all.
        let takesRest: Bool
        var entry: Entry

        func match(_ path: Substring) -> [Substring]? {
            guard path.utf8.starts(with: prefix.utf8) else { return nil }
            let limit = takesRest ? segments.count - 1 : Int.max
            let parts = path.dropFirst().split(separator: "/", maxSplits: limit, omittingEmptySubsequences: false)
            guard parts.count == segments.count else { return nil }
            var parameters: [Substring] = []
            for (segment, part) in zip(segments, parts) {
                if let segment {
                    guard segment == part else { return nil }
                } else {
                    guard !part.isEmpty || takesRest else { return nil }
                    parameters.append(part)
                }
            }
            return parameters
        }
    }

    private var exact: [Substring: Entry] = [:]
    private var patterns: [Pattern] = []
    /// What serves the paths of app links, and their patterns.
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
            let segments = route.template.dropFirst().split(separator: "/").map { $0.hasPrefix("{") ? nil : $0 }
            patterns.append(
                Pattern(
                    segments: segments, prefix: String(route.template.prefix { $0 != "{" }),
                    takesRest: route.traits.contains(.relay),
                    entry: Entry(template: route.template, routes: [route])))
        }
    }

    /// Returns the path's entry and what stands where its template has braces, or nil when there is none.
    func find(_ path: Substring) -> (entry: Entry, parameters: [Substring])? {
        if let entry = exact[path] { return (entry, []) }
        for pattern in patterns {
            if let parameters = pattern.match(path) { return (pattern.entry, parameters) }
        }
        guard let appLinks, appLinks.paths.contains(where: { PathPattern.covers($0, path) }) else { return nil }
        return (appLinks.entry, [])
    }
}

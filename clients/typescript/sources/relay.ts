// The two answers that the client passes on unchanged: an upstream's response, and the events of a session.
import { AbortSignal, Headers, ReadableStream, RequestInit, Response, Stream, TextDecoder } from './platform'
import { KeyLost, Problem, SessionEvent, Unreachable } from './values'
import { KeyFailure, thrownByKey } from './keys'
import { aborted, fail, limited, sleep } from './waiting'
import { Mending } from './evidence'
import { Attempt, Calls, escaped, Fields, parsed, retryAfter } from './calls'
import { Asking } from './asking'

/** Calls an upstream, and returns its response. */
export async function relayed(
    calls: Calls, asking: Asking, upstream: string, path: string, init: RequestInit & { query?: string; presence?: boolean; signal?: AbortSignal } = {}
): Promise<Response> {
    if (path.split('/').some(part => part === '' || part === '.' || part === '..' || /[?#]/.test(part))) {
        throw new TypeError('a path that could be read in more than one way; a query goes into the option `query`')
    }
    const { query, signal, presence, ...rest } = init
    const method = (rest.method ?? 'GET').toUpperCase()
    const again = ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'].includes(method)
    const streams = typeof ReadableStream !== 'undefined' && rest.body instanceof ReadableStream
    const address = escaped(`${calls.broker}/v1/relay/${upstream}/${path}`)
    const url = `${address}${query ? `?${query}` : ''}`
    const mending = new Mending()
    if (presence) {
        asking.presenceKey()
        const { session } = await calls.keeping.kept()
        if (session && (await asking.canAsk(session))) mending.presence = await asking.presence(method, address, session, false, signal)
    }
    const attempt = async (): Promise<Attempt<Response>> => {
        const kept = await calls.keeping.kept()
        const stepUps = calls.user.stepUps
        const headers = new Headers(rest.headers)
        if (kept.session) headers.set('Authorization', `Bearer ${kept.session}`)
        if (mending.presence) headers.set('Coatcheck-Presence', mending.presence)
        let shown: Fields
        try {
            shown = await calls.proofs.evidence('session', method, address, kept.session, mending, { signal })
        } catch (lost) {
            return await calls.unsent(lost, kept.session, signal)
        }
        for (const name of Object.keys(shown)) headers.set(name, shown[name])
        let answer: Response
        try {
            answer = await calls.send(url, { ...rest, method, headers, signal, redirect: 'manual', credentials: calls.credentials() })
        } catch (lost) {
            if (signal?.aborted || !again) throw signal?.aborted ? lost : new Unreachable(String(lost))
            return { failure: new Unreachable(String(lost)) }
        }
        if (answer.headers.get('Coatcheck-Source') === 'upstream' || (answer.type as string) === 'opaqueredirect') return { value: answer }
        const problem = await calls.problem(answer)
        if (!problem) return again ? { failure: new Unreachable(`status ${answer.status}`) } : fail(new Unreachable(`status ${answer.status}`))
        await calls.learn(problem, kept.session)
        if (await calls.proofs.mends(problem, 'session', again, mending, shown, kept.session)) return await attempt()
        const sent = { method, address, session: kept.session, repeatable: again, stepUps }
        if (!streams && (await calls.user.asksUser(problem, sent, mending, signal))) return { failure: problem, atOnce: true }
        // After a 408, the upstream may have received part of the request. After the broker's 503 or 429, it has received
        // nothing.
        if (!problem.passes || (!again && problem.code === 'request_timeout')) throw problem
        return { failure: problem, retryAfter: retryAfter(answer.headers) }
    }
    return await calls.repeated<Response>(calls.deadline, signal, attempt)
}

/** Yields the events of the session until the session ends. Reconnects if the stream breaks. */
export async function* listened(calls: Calls, signal?: AbortSignal): AsyncGenerator<SessionEvent, void, void> {
    let mending = new Mending()
    const url = `${calls.broker}/v1/session/events`
    for (let number = 0; ; number += 1) {
        let pause = (500 + Math.random() * 500) * 2 ** Math.min(number, 5)
        const kept = await calls.keeping.kept()
        const sessions = calls.keeping.sessions
        const headers: Fields = kept.session ? { Authorization: `Bearer ${kept.session}` } : {}
        try {
            // A proof opens the stream, because a stream that a pass has opened ends with the pass.
            Object.assign(headers, await calls.proofs.evidence('proof', 'GET', url, kept.session, mending, { signal }))
            const answer = await calls.send(url, { headers, signal, credentials: calls.credentials() })
            if (answer.status === 200) {
                mending = new Mending()
                const body = (answer as { body?: unknown }).body as Stream | null | undefined
                if (!body) throw new TypeError('this fetch cannot stream')
                for await (const event of streamed(body)) {
                    number = 0
                    if (event.kind === 'session') event.session = await calls.keeping.remember(event.session, kept.session, sessions)
                    if (event.kind === 'ended') await calls.keeping.forget(kept.session)
                    yield event
                    if (event.kind === 'ended') return
                }
            } else {
                const problem = await calls.problem(answer)
                if (problem) {
                    await calls.learn(problem, kept.session)
                    if (problem.endsSession) {
                        yield { kind: 'ended', reason: problem.reason }
                        return
                    }
                    if (await calls.proofs.mends(problem, 'proof', true, mending, headers, kept.session)) continue
                    if (!problem.passes) throw problem
                }
                pause = Math.max(pause, retryAfter(answer.headers) ?? 0)
            }
        } catch (lost) {
            if (signal?.aborted) throw lost
            if (lost instanceof KeyLost) {
                await calls.keeping.forget(kept.session)
                yield { kind: 'ended', reason: 'key_lost' }
                return
            }
            if (lost instanceof KeyFailure) thrownByKey(lost)
            if (lost instanceof Problem || (lost instanceof TypeError && lost.message === 'this fetch cannot stream')) throw lost
        }
        await sleep(pause, signal)
    }
}

/** Yields the events of a stream as they arrive. */
export async function* streamed(body: Stream): AsyncGenerator<SessionEvent, void, void> {
    const reader = body.getReader()
    const decoder = new TextDecoder()
    let buffer = ''
    try {
        for (;;) {
            // The broker sends something at least every 25 seconds, so 60 seconds of silence mean that the connection is dead.
            const part = await limited(60_000, undefined, signal => Promise.race([reader.read(), aborted(signal)]))
            if (part.done) return
            buffer += decoder.decode(part.value, { stream: true })
            for (let end = buffer.indexOf('\n\n'); end >= 0; end = buffer.indexOf('\n\n')) {
                const lines = buffer.slice(0, end).split('\n')
                buffer = buffer.slice(end + 2)
                const name = lines.find(line => line.startsWith('event: '))?.slice(7)
                const data = parsed(lines.filter(line => line.startsWith('data: ')).map(line => line.slice(6)).join('\n'))
                if (name === 'session') yield { kind: 'session', session: data }
                if (name === 'tokens_refreshed') yield { kind: 'tokensRefreshed' }
                if (name === 'session_ended') yield { kind: 'ended', reason: data?.reason ?? null }
            }
        }
    } finally {
        reader.cancel().catch(() => undefined)
    }
}

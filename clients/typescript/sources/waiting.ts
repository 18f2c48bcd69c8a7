// Work that callers wait for: together, one after the other, with a limit, and with a pause.
import { AbortController, AbortSignal, clearTimeout, setTimeout } from './platform'

/** A call that several callers wait for. It is aborted if all of them stop waiting. */
export class SharedCall<Value> {
    private readonly abort = new AbortController()
    private readonly work: Promise<Value>
    private waiting = 0
    private over = false

    constructor(work: (signal: AbortSignal) => Promise<Value>) {
        this.work = work(this.abort.signal).finally(() => { this.over = true })
        // Each waiting caller receives the error itself. This handler is for an error that no caller waits for.
        this.work.catch(() => undefined)
    }

    get isOpen(): boolean { return !this.over && !this.abort.signal.aborted }

    async value(signal?: AbortSignal): Promise<Value> {
        if (signal?.aborted) throw reasonOf(signal)
        this.waiting += 1
        let left: () => void = () => undefined
        const leaving = new Promise<never>((_, reject) => {
            left = () => reject(signal && reasonOf(signal))
            signal?.addEventListener('abort', left)
        })
        leaving.catch(() => undefined)
        try {
            return await Promise.race([this.work, leaving])
        } finally {
            signal?.removeEventListener('abort', left)
            this.waiting -= 1
            if (this.waiting === 0 && !this.over) this.abort.abort()
        }
    }
}

/** A queue that does one piece of work at a time, in the order of the requests. */
export class Turn {
    private isTaken = false
    private waiting: { begin: () => void; fail: (error: unknown) => void }[] = []

    /** Does the work when its turn comes. If `signal` is aborted before, the call fails at once. */
    async taken<Value>(work: () => Promise<Value>, signal?: AbortSignal): Promise<Value> {
        if (signal?.aborted) throw reasonOf(signal)
        if (this.isTaken) await this.wait(signal)
        this.isTaken = true
        try {
            return await work()
        } finally {
            const next = this.waiting.shift()
            if (next) next.begin()
            else this.isTaken = false
        }
    }

    /** Fails all waiting callers. */
    refuse(error: unknown): void { for (const one of this.waiting.splice(0)) one.fail(error) }

    private wait(signal?: AbortSignal): Promise<void> {
        return new Promise((resolve, reject) => {
            const left = () => {
                this.waiting = this.waiting.filter(other => other !== one)
                reject(signal && reasonOf(signal))
            }
            const over = () => signal?.removeEventListener('abort', left)
            const one = { begin: () => { over(); resolve() }, fail: (error: unknown) => { over(); reject(error) } }
            this.waiting.push(one)
            signal?.addEventListener('abort', left)
        })
    }
}

export function reasonOf(signal: AbortSignal): Error {
    const reason = (signal as { reason?: unknown }).reason
    if (reason instanceof Error) return reason
    const error = new Error('aborted')
    error.name = 'AbortError'
    return error
}

export function fail(error: Error): never { throw error }

/** Runs work that is aborted by the caller's signal or after the time limit. */
export async function limited<Value>(limit: number, signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<Value>): Promise<Value> {
    const abort = new AbortController()
    const pass = () => abort.abort()
    const timer = setTimeout(pass, limit)
    signal?.addEventListener('abort', pass)
    try {
        return await work(abort.signal)
    } catch (error) {
        throw signal?.aborted ? reasonOf(signal) : error
    } finally {
        clearTimeout(timer)
        signal?.removeEventListener('abort', pass)
    }
}

export function sleep(millis: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
        const left = () => {
            clearTimeout(timer)
            reject(signal && reasonOf(signal))
        }
        const timer = setTimeout(() => {
            signal?.removeEventListener('abort', left)
            resolve()
        }, millis)
        if (signal?.aborted) left()
        else signal?.addEventListener('abort', left)
    })
}

export function aborted(signal: AbortSignal): Promise<never> {
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(reasonOf(signal))))
}

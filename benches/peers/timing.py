# Times calls in the same way for every script, and prints one line a variant: name, case, operations (or tokens), seconds of each run, tab-separated.
import math,os,re,sys,time

def hwm(reset=False):
    if reset: open('/proc/self/clear_refs','w').write('5')
    return int([l for l in open('/proc/self/status') if l.startswith('VmHWM')][0].split()[1])/1024

def bench(name,case,work,seconds,f):
    if not re.search(os.environ.get('ONLY','.'),name): return
    hwm(True); f();t=time.perf_counter();f();one=time.perf_counter()-t; inner=max(1,math.ceil(50e-6/one)); s=[];t0=time.perf_counter()
    while (time.perf_counter()-t0<seconds or len(s)<3) and len(s)<2000:
        t=time.perf_counter()
        for _ in range(inner): f()
        s.append((time.perf_counter()-t)/inner)
    print(f"{name}\t{case}\t{work}\t"+",".join(f"{x:.4e}" for x in s),flush=True)
    print(f"{name} {case} peakRSS {hwm():.0f} MiB",file=sys.stderr)
